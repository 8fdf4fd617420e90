use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// One operation on the queue and on the [`Model`].
#[derive(Clone, Debug)]
enum Step {
    /// Push a line of this many bytes.
    Push(usize),
    /// Write up to this many bytes.
    Write(usize),
    /// Remove the request with this id.
    Remove(u64),
    /// Split off a batch of this many bytes and write all of it, as the writer task does.
    TakeFront(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        1..40_usize,
        MAX_COPIED_BYTES - 1..MAX_COPIED_BYTES + 2,
        10_000..12_000_usize
    ];
    let amount = prop_oneof![0..200_usize, 0..20_000_usize];
    prop_oneof![
        4 => size.prop_map(Step::Push),
        2 => amount.clone().prop_map(Step::Write),
        2 => (0..30_u64).prop_map(Step::Remove),
        1 => amount.prop_map(|bytes| Step::TakeFront(bytes + 1)),
    ]
}

/// Reference implementation of [`LineQueue`], with one buffer per line.
#[derive(Default)]
struct Model {
    lines: Vec<(u64, Vec<u8>)>,
    first_partly_written: bool,
}

impl Model {
    fn text(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|(_, line)| line.clone())
            .collect()
    }

    fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let (_, first) = &mut self.lines[0];
            let taken = written.min(first.len());
            first.drain(..taken);
            written -= taken;
            self.first_partly_written = !first.is_empty();
            if !self.first_partly_written {
                self.lines.remove(0);
            }
        }
    }

    fn remove_unsent(&mut self, id: u64) -> bool {
        let index = self.lines.iter().position(|(line, _)| *line == id);
        let index = index.filter(|index| *index > 0 || !self.first_partly_written);
        index.map(|index| self.lines.remove(index)).is_some()
    }

    fn unsent_requests(&self) -> Vec<u64> {
        let partly_written = usize::from(self.first_partly_written);
        self.lines
            .iter()
            .skip(partly_written)
            .map(|(id, _)| *id)
            .collect()
    }
}

/// The bytes of the next vectored write.
fn next_bytes(queue: &LineQueue) -> Vec<u8> {
    queue.with_slices(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect())
}

fn line(id: u64, size: usize) -> Vec<u8> {
    let letter = b'a' + u8::try_from(id % 26).unwrap();
    vec![letter; size]
}

proptest! {
    #[test]
    fn queue_matches_reference(steps in vec(step(), 1..60)) {
        let (mut queue, mut model, mut next_id) = (LineQueue::default(), Model::default(), 0);
        let mut push = |queue: &mut LineQueue, model: &mut Model, size| {
            queue.push(Some(next_id), line(next_id, size), None);
            model.lines.push((next_id, line(next_id, size)));
            next_id += 1;
        };
        for step in steps {
            match step {
                Step::Push(size) => push(&mut queue, &mut model, size),
                Step::Write(max) => {
                    let offered = next_bytes(&queue);
                    prop_assert!(model.text().starts_with(&offered));
                    let written = max.min(offered.len());
                    queue.advance(written);
                    model.advance(written);
                }
                Step::Remove(id) => {
                    prop_assert_eq!(queue.remove_unsent(id), model.remove_unsent(id));
                }
                Step::TakeFront(bytes) => {
                    let mut front = queue.take_front(bytes);
                    while !front.is_empty() {
                        let written = next_bytes(&front);
                        prop_assert!(model.text().starts_with(&written));
                        front.advance(written.len());
                        model.advance(written.len());
                    }
                }
            }
            prop_assert_eq!(queue.bytes(), model.text().len());
            prop_assert_eq!(queue.first_partly_written, model.first_partly_written);
            prop_assert_eq!(queue.unsent_requests().collect::<Vec<_>>(), model.unsent_requests());
        }
        let mut rest = Vec::new();
        while !queue.is_empty() {
            let bytes = next_bytes(&queue);
            queue.advance(bytes.len());
            rest.extend(bytes);
        }
        prop_assert_eq!(rest, model.text());
    }
}

#[test]
fn short_lines_are_one_slice() {
    let mut queue = LineQueue::default();
    for id in 0..100 {
        queue.push(Some(id), line(id, 50), None);
    }
    assert_eq!(queue.with_slices(|slices| slices.len()), 1);
    queue.push(None, line(0, MAX_COPIED_BYTES + 1), None);
    queue.push(None, line(1, 50), None);
    assert_eq!(queue.with_slices(|slices| slices.len()), 3);
}

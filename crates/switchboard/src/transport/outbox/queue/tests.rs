use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What can be done to a queue.
#[derive(Clone, Debug)]
enum Step {
    /// A line of so many bytes comes in.
    Push(usize),
    /// So many of the bytes that are offered are written.
    Write(usize),
    Withdraw(u64),
    /// All but the first lines wait while those are written in part, and others come in.
    PutBack {
        front: usize,
        written: usize,
        pushed: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1..40_usize, SHORT - 1..SHORT + 2, 10_000..12_000_usize];
    let amount = prop_oneof![0..200_usize, 0..20_000_usize];
    prop_oneof![
        4 => size.clone().prop_map(Step::Push),
        2 => amount.clone().prop_map(Step::Write),
        2 => (0..30_u64).prop_map(Step::Withdraw),
        1 => (amount.clone(), amount, size).prop_map(|(front, written, pushed)| Step::PutBack {
            front,
            written,
            pushed,
        }),
    ]
}

/// The same by lines that are kept each by itself.
#[derive(Default)]
struct Model {
    lines: Vec<(u64, Vec<u8>)>,
    is_begun: bool,
}

impl Model {
    fn text(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|(_, line)| line.clone())
            .collect()
    }

    fn wrote(&mut self, mut written: usize) {
        while written > 0 {
            let (_, first) = &mut self.lines[0];
            let taken = written.min(first.len());
            first.drain(..taken);
            written -= taken;
            self.is_begun = !first.is_empty();
            if !self.is_begun {
                self.lines.remove(0);
            }
        }
    }

    fn withdraw(&mut self, id: u64) -> bool {
        let place = self.lines.iter().position(|(it, _)| *it == id);
        let place = place.filter(|place| *place > 0 || !self.is_begun);
        place.map(|place| self.lines.remove(place)).is_some()
    }

    fn not_begun(&self) -> Vec<u64> {
        let begun = usize::from(self.is_begun);
        self.lines.iter().skip(begun).map(|(id, _)| *id).collect()
    }
}

/// All that is left, as it would be written.
fn written_out(queue: &Queue) -> Vec<u8> {
    queue.offer(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect())
}

fn line(id: u64, size: usize) -> Vec<u8> {
    let letter = b'a' + u8::try_from(id % 26).unwrap();
    vec![letter; size]
}

proptest! {
    #[test]
    fn lines_leave_in_their_order_whatever_is_written_and_withdrawn(steps in vec(step(), 1..60)) {
        let (mut queue, mut model, mut next_id) = (Queue::default(), Model::default(), 0);
        let mut push = |queue: &mut Queue, model: &mut Model, size| {
            queue.push(Some(next_id), line(next_id, size), None);
            model.lines.push((next_id, line(next_id, size)));
            next_id += 1;
        };
        for step in steps {
            match step {
                Step::Push(size) => push(&mut queue, &mut model, size),
                Step::Write(most) => {
                    let offered = written_out(&queue);
                    prop_assert!(model.text().starts_with(&offered));
                    let written = most.min(offered.len());
                    queue.wrote(written);
                    model.wrote(written);
                }
                Step::Withdraw(id) => prop_assert_eq!(queue.withdraw(id), model.withdraw(id)),
                Step::PutBack { front, written, pushed } => {
                    let mut first = queue.take_front(front);
                    let written = written.min(written_out(&first).len());
                    push(&mut queue, &mut model, pushed);
                    first.wrote(written);
                    model.wrote(written);
                    first.append(&mut queue);
                    queue = first;
                }
            }
            prop_assert_eq!(queue.bytes(), model.text().len());
            prop_assert_eq!(queue.len(), model.lines.len());
            prop_assert_eq!(queue.is_begun(), model.is_begun);
            prop_assert_eq!(queue.not_begun().collect::<Vec<_>>(), model.not_begun());
        }
        let mut left = Vec::new();
        while !queue.is_empty() {
            let piece = written_out(&queue);
            queue.wrote(piece.len());
            left.extend(piece);
        }
        prop_assert_eq!(left, model.text());
    }
}

#[test]
fn short_lines_are_one_piece() {
    let mut queue = Queue::default();
    for id in 0..100 {
        queue.push(Some(id), line(id, 50), None);
    }
    assert_eq!(queue.offer(|slices| slices.len()), 1);
    queue.push(None, line(0, SHORT + 1), None);
    queue.push(None, line(1, 50), None);
    assert_eq!(queue.offer(|slices| slices.len()), 3);
}

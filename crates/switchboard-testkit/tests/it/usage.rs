//! Tests of the memory and CPU measurement.

use switchboard_testkit::{PeakMemory, cpu_time};

#[test]
fn peak_includes_freed_memory() {
    const SIZE: usize = 64 * 1024 * 1024;
    let memory = PeakMemory::begin();
    drop(std::hint::black_box(vec![1_u8; SIZE]));
    let growth = usize::try_from(memory.growth()).unwrap();
    assert!(growth >= SIZE - SIZE / 8, "{growth}");
}

#[test]
fn cpu_time_advances() {
    let before = cpu_time();
    let mut sum = 0_u64;
    while cpu_time() == before {
        sum = std::hint::black_box(sum + 1);
    }
    assert!(cpu_time() > before);
}

//! Work shared among scoped threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than processors: with a cold page cache they wait for the disk side by side.
const MAX_THREADS: usize = 8;
/// Below this many items a thread costs more than it brings.
const ITEMS_PER_THREAD: usize = 16;

/// Does `work` for every index below `count`, on as many threads as it is worth, and returns the
/// results in the order of the indices, whatever thread did which.
pub fn for_each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = MAX_THREADS.min(count / ITEMS_PER_THREAD);
    if threads < 2 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let worker = || {
            let mut own = Vec::with_capacity(count / threads + 1);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return own;
                }
                own.push((index, work(index)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order() {
        for count in [0, 1, 31, 32, 5000] {
            assert_eq!(
                for_each(count, |index| index * 2),
                (0..count).map(|index| index * 2).collect::<Vec<_>>()
            );
        }
    }
}

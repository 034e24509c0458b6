//! Work shared among scoped threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than processors: with a cold page cache they wait for the disk side by side.
const MAX_THREADS: usize = 8;
/// An item is a whole package; fewer of them are done before the threads have started.
const MIN_ITEMS: usize = 4;

/// Does `work` for every index below `count`, on several threads where there are more than a few,
/// and returns the results in the order of the indices, whatever thread did which.
///
/// Where the system gives fewer threads, those do it all; where it gives none, the caller's own does.
pub fn for_each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if count < MIN_ITEMS {
        return (0..count).map(work).collect();
    }
    let threads = MAX_THREADS.min(count);
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
        let start = |_| thread::Builder::new().spawn_scoped(scope, worker).ok();
        let workers: Vec<_> = (0..threads).map_while(start).collect();
        if workers.is_empty() {
            return worker();
        }
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
        for count in [0, 1, 3, 4, 31, 5000] {
            assert_eq!(
                for_each(count, |index| index * 2),
                (0..count).map(|index| index * 2).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn shares_a_few_items_out() {
        let own = thread::current().id();
        let is_own = |count| for_each(count, |_| thread::current().id() == own);
        assert_eq!(is_own(3), [true; 3]);
        assert_eq!(is_own(4), [false; 4]);
    }
}

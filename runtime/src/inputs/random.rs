//! Reproducible random numbers: a pure function of seed and position.
//!
//! The mixing function is the finaliser of the splitmix64 generator (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014). Values are multiples of 2^-24, so that they are the same numbers
//! in f32 and in f64. Since a number depends on its position alone (a counter-based generator in the sense of Salmon
//! and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), arrays are filled by all cores and are the same
//! on any number of them.

use rayon::prelude::*;

/// Uniform in [-1/2, 1/2): the number at a position of the stream of a seed.
pub fn uniform(seed: u64, position: u64) -> f64 {
    let stream = mix(seed.wrapping_add(GOLDEN));
    let bits = mix(stream.wrapping_add(position.wrapping_mul(GOLDEN)));
    (bits >> 40) as f64 / (1u64 << 24) as f64 - 0.5
}

/// Numbers that a core takes at once.
const PIECE: usize = 1 << 14;

/// `len` numbers of a stream, from a position on.
pub fn fill(seed: u64, from: u64, len: usize) -> Vec<f64> {
    let mut values = vec![0.0; len];
    let number = |piece: usize| from + (piece * PIECE) as u64;
    values.par_chunks_mut(PIECE).enumerate().for_each(|(piece, values)| {
        values.iter_mut().zip(number(piece)..).for_each(|(value, position)| *value = uniform(seed, position));
    });
    values
}

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_centred_bounded_and_exact_in_f32() {
        let values = fill(3, 0, 100_000);
        assert!(values.iter().all(|v| (-0.5..0.5).contains(v) && f64::from(*v as f32) == *v));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.005, "mean {mean}");
        assert!((square - 1.0 / 12.0).abs() < 0.001, "mean square {square}");
    }

    #[test]
    fn a_position_has_one_value_and_seeds_differ() {
        assert_eq!(fill(1, 5, 3), fill(1, 0, 8)[5..]);
        assert_ne!(fill(1, 0, 4), fill(2, 0, 4));
    }

    #[test]
    fn the_number_of_cores_does_not_matter() {
        let len = 5 * PIECE + 17;
        let one_by_one: Vec<f64> = (7..7 + len as u64).map(|position| uniform(9, position)).collect();
        for cores in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build().expect("threads");
            assert!(pool.install(|| fill(9, 7, len)) == one_by_one, "{cores} threads");
        }
    }
}

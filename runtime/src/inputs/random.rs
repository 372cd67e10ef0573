//! Reproducible random numbers: a pure function of seed and position.
//!
//! The mixing function is the finaliser of the splitmix64 generator (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014). Values are multiples of 2^-24, so that they are the same numbers
//! in f32 and in f64.

/// Uniform in [-1/2, 1/2): the number at a position of the stream of a seed.
pub fn uniform(seed: u64, position: u64) -> f64 {
    let stream = mix(seed.wrapping_add(GOLDEN));
    let bits = mix(stream.wrapping_add(position.wrapping_mul(GOLDEN)));
    (bits >> 40) as f64 / (1u64 << 24) as f64 - 0.5
}

/// `len` numbers of a stream, from a position on.
pub fn fill(seed: u64, from: u64, len: usize) -> Vec<f64> {
    (from..from + len as u64).map(|position| uniform(seed, position)).collect()
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
}

//! The Mersenne Twister of 32 bits (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed
//! uniform pseudo-random number generator", 1998). Programs of the field draw from it (it is in the C++ library), so the
//! same matrices can be made there.

const WORDS: usize = 624;
/// Distance of the word that is mixed in.
const MIDDLE: usize = 397;

/// A stream of random numbers.
pub(super) struct Mersenne {
    state: [u32; WORDS],
    next: usize,
}

impl Mersenne {
    pub(super) fn new(seed: u32) -> Mersenne {
        let mut state = [seed; WORDS];
        for n in 1..WORDS {
            let before = state[n - 1];
            state[n] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(n as u32);
        }
        Mersenne { state, next: WORDS }
    }

    /// Uniform in [0, 1), made of two numbers of the stream, the lower half first.
    pub(super) fn unit(&mut self) -> f64 {
        const HALF: f64 = 4_294_967_296.0;
        let low = f64::from(self.number());
        let value = (low + f64::from(self.number()) * HALF) / (HALF * HALF);
        value.min(1.0 - f64::EPSILON / 2.0)
    }

    fn number(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn twist(&mut self) {
        for n in 0..WORDS {
            let joined = self.state[n] & 0x8000_0000 | self.state[(n + 1) % WORDS] & 0x7fff_ffff;
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[n] = self.state[(n + MIDDLE) % WORDS] ^ joined >> 1 ^ odd;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Mersenne;

    #[test]
    fn the_ten_thousandth_number_is_the_one_the_c_plus_plus_standard_names() {
        let mut random = Mersenne::new(5489);
        let last = (0..10_000).map(|_| random.number()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}

//! An explicit Runge-Kutta step as data: a straight-line program over a few registers.
//!
//! Register 0 holds the state that the rate is evaluated at; the others hold whatever the scheme carries. A stage
//! evaluates the rate L at register 0 and time t + c dt, then makes its assignments in order,
//!
//! ```text
//! register  =  sum of  factor * register  +  rate * dt * L ,
//! ```
//!
//! each of which sees the ones before. Low-storage schemes (two registers), Shu-Osher forms and Butcher tableaus are all
//! of this shape. A register that a step reads before it writes it carries over from step to step; only register 0 may.

pub use kernelwright_syntax::program::system::{Stage, Update};

/// A time step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name in the program.
    pub name: String,
    /// Names of the registers; the first one is the state.
    pub registers: Vec<String>,
    /// Stages in order.
    pub stages: Vec<Stage>,
}

/// What is wrong with a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No stages or registers.
    #[error("the step `{0}` has no stages")]
    Empty(String),
    /// A register out of range.
    #[error("stage {stage} of `{step}` names a register that is not there")]
    Register {
        /// Name of the step.
        step: String,
        /// Number of the stage, from 0.
        stage: usize,
    },
    /// A register is read before the step gives it a value.
    #[error("stage {stage} of `{step}` reads `{register}` before it has a value")]
    Unset {
        /// Name of the step.
        step: String,
        /// Number of the stage, from 0.
        stage: usize,
        /// Name of the register.
        register: String,
    },
    /// One step of u' = 1 does not advance u by dt, or the time of a stage is not that of its state.
    #[error(
        "`{0}` is not consistent: a step of u' = 1 does not give u + dt, or a stage's state is not that of its time"
    )]
    Inconsistent(String),
}

impl Step {
    /// A low-storage scheme with two registers: `residual = a residual + dt L`, `state = state + b residual`.
    pub fn low_storage(name: &str, a: &[f64], b: &[f64], c: &[f64]) -> Step {
        let stage = |((&a, &b), &c): ((&f64, &f64), &f64)| {
            let carried = if a == 0.0 { Vec::new() } else { vec![(1, a)] };
            Stage {
                time: c,
                updates: vec![
                    Update { register: 1, terms: carried, rate: 1.0 },
                    Update { register: 0, terms: vec![(0, 1.0), (1, b)], rate: 0.0 },
                ],
            }
        };
        Step {
            name: name.to_owned(),
            registers: vec!["state".into(), "residual".into()],
            stages: a.iter().zip(b).zip(c).map(stage).collect(),
        }
    }

    /// The five-stage scheme of order four of Carpenter and Kennedy (NASA TM 109112, 1994, solution 3).
    pub fn lserk4() -> Step {
        Step::low_storage(
            "lserk4",
            &[
                0.0,
                -567_301_805_773.0 / 1_357_537_059_087.0,
                -2_404_267_990_393.0 / 2_016_746_695_238.0,
                -3_550_918_686_646.0 / 2_091_501_179_385.0,
                -1_275_806_237_668.0 / 842_570_457_699.0,
            ],
            &[
                1_432_997_174_477.0 / 9_575_080_441_755.0,
                5_161_836_677_717.0 / 13_612_068_292_357.0,
                1_720_146_321_549.0 / 2_090_206_949_498.0,
                3_134_564_353_537.0 / 4_481_467_310_338.0,
                2_277_821_191_437.0 / 14_882_151_754_819.0,
            ],
            &[
                0.0,
                1_432_997_174_477.0 / 9_575_080_441_755.0,
                2_526_269_341_429.0 / 6_820_363_962_896.0,
                2_006_345_519_317.0 / 3_224_310_063_776.0,
                2_802_321_613_138.0 / 2_924_317_926_251.0,
            ],
        )
    }

    /// The three-stage, third-order strong-stability-preserving scheme of Shu and Osher (1988).
    pub fn ssp3() -> Step {
        let stage = |time: f64, base: f64, state: f64, last: bool| {
            let terms = if base == 0.0 { vec![(0, state)] } else { vec![(1, base), (0, state)] };
            let own = Update { register: 0, terms, rate: state };
            let keep = Update { register: 1, terms: vec![(0, 1.0)], rate: 0.0 };
            let updates = match (base == 0.0, last) {
                (true, _) => vec![keep, own],
                _ => vec![own],
            };
            Stage { time, updates }
        };
        Step {
            name: "ssp3".into(),
            registers: vec!["state".into(), "base".into()],
            stages: vec![
                stage(0.0, 0.0, 1.0, false),
                stage(1.0, 0.75, 0.25, false),
                stage(0.5, 1.0 / 3.0, 2.0 / 3.0, true),
            ],
        }
    }

    /// Checks registers, the order of reads and writes, and consistency.
    pub fn verify(&self) -> Result<(), StepError> {
        if self.stages.is_empty() || self.registers.is_empty() {
            return Err(StepError::Empty(self.name.clone()));
        }
        let mut set = vec![false; self.registers.len()];
        set[0] = true;
        for (number, stage) in self.stages.iter().enumerate() {
            for update in &stage.updates {
                let step = self.name.clone();
                let read = update.terms.iter().map(|&(register, _)| register);
                if read.clone().chain([update.register]).any(|register| register >= set.len()) {
                    return Err(StepError::Register { step, stage: number });
                }
                if let Some(unset) = read.clone().find(|&register| !set[register]) {
                    let register = self.registers[unset].clone();
                    return Err(StepError::Unset { step, stage: number, register });
                }
                set[update.register] = true;
            }
        }
        if self.consistent() { Ok(()) } else { Err(StepError::Inconsistent(self.name.clone())) }
    }

    /// For u' = 1 with dt = 1 and u(0) = 0 every state is the time of its stage, and the last one is 1.
    fn consistent(&self) -> bool {
        let mut values = vec![0.0; self.registers.len()];
        for stage in &self.stages {
            if (values[0] - stage.time).abs() > 1e-9 {
                return false;
            }
            self.advance(stage, &mut values, 1.0);
        }
        (values[0] - 1.0f64).abs() < 1e-9
    }

    fn advance(&self, stage: &Stage, values: &mut [f64], rate: f64) {
        for update in &stage.updates {
            let sum: f64 = update.terms.iter().map(|&(register, factor)| factor * values[register]).sum();
            values[update.register] = sum + update.rate * rate;
        }
    }

    /// Coefficients of the stability polynomial R, by ascending power of z = dt * eigenvalue: one step of u' = eigenvalue * u
    /// multiplies u by R(z). Its agreement with exp(z) gives the order for linear problems.
    pub fn stability_polynomial(&self) -> Vec<f64> {
        let degree = self.stages.len();
        let mut registers = vec![vec![0.0; degree + 1]; self.registers.len()];
        registers[0][0] = 1.0;
        for stage in &self.stages {
            let mut rate = vec![0.0];
            rate.extend_from_slice(&registers[0][..degree]);
            for update in &stage.updates {
                let sum = (0..=degree).map(|power| {
                    let read: f64 =
                        update.terms.iter().map(|&(register, factor)| factor * registers[register][power]).sum();
                    read + update.rate * rate[power]
                });
                registers[update.register] = sum.collect();
            }
        }
        registers.swap_remove(0)
    }

    /// Order of accuracy for linear problems: how many coefficients agree with those of exp(z), less one.
    pub fn linear_order(&self) -> usize {
        let mut exact = 1.0;
        let mut order = 0;
        for (power, coefficient) in self.stability_polynomial().into_iter().enumerate() {
            if power > 0 {
                exact /= power as f64;
            }
            if (coefficient - exact).abs() > 1e-9 {
                break;
            }
            order = power;
        }
        order
    }
}

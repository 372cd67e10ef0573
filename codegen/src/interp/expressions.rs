//! Kernel IR to linear code: expressions.

use super::code::{File, Inst, Reg};
use super::compile::{Compiler, Value, file};
use super::error::InterpError;
use super::field::Precision;
use crate::kernel::{Cmp, Expr, Math, Op, Type};

fn precision(ty: Type) -> Option<Precision> {
    match ty {
        Type::F32 => Some(Precision::F32),
        Type::F64 => Some(Precision::F64),
        Type::Int | Type::Bool => None,
    }
}

/// Whether evaluating it costs nothing and cannot go wrong.
fn is_leaf(e: &Expr) -> bool {
    !matches!(
        e,
        Expr::Load(..)
            | Expr::Neg(_)
            | Expr::Not(_)
            | Expr::Binary(..)
            | Expr::Compare(..)
            | Expr::Select(..)
            | Expr::Call(..)
            | Expr::Cast(..)
    )
}

impl Compiler<'_> {
    /// Type of an expression, found without code.
    pub fn type_of(&self, e: &Expr) -> Result<Type, InterpError> {
        Ok(match e {
            Expr::Real(_, ty) | Expr::Cast(ty, _) => *ty,
            Expr::Int(_) | Expr::Lane(_) | Expr::Block(_) => Type::Int,
            Expr::Bool(_) | Expr::Not(_) | Expr::Compare(..) => Type::Bool,
            Expr::Var(var) => match self.kernel.vars.get(var.0) {
                Some(variable) => variable.ty,
                None => return Err(self.malformed(format!("variable {} is not declared", var.0))),
            },
            Expr::Load(buffer, _) => self.element_type(*buffer)?,
            Expr::Neg(a) | Expr::Binary(_, a, _) | Expr::Select(_, a, _) => self.type_of(a)?,
            Expr::Call(_, args) => match args.first() {
                Some(a) => self.type_of(a)?,
                None => return Err(self.malformed("a function without arguments")),
            },
        })
    }

    /// The register of an expression that must be of a type.
    pub fn typed(&mut self, e: &Expr, ty: Type) -> Result<Reg, InterpError> {
        match self.evaluate(e)? {
            (register, found) if found == ty => Ok(register),
            (_, found) => Err(self.malformed(format!("a value of type {found:?} where {ty:?} is needed"))),
        }
    }

    /// The same into a given register.
    pub fn typed_to(&mut self, e: &Expr, ty: Type, to: Reg) -> Result<(), InterpError> {
        let found = self.type_of(e)?;
        if found != ty {
            return Err(self.malformed(format!("a value of type {found:?} where {ty:?} is needed")));
        }
        self.evaluate_to(e, to)
    }

    /// Evaluates into any register: leaves have their own.
    pub fn evaluate(&mut self, e: &Expr) -> Result<Value, InterpError> {
        let ty = self.type_of(e)?;
        if is_leaf(e) {
            return Ok((self.leaf(e)?, ty));
        }
        let to = self.register(file(ty));
        self.operation(e, ty, to)?;
        Ok((to, ty))
    }

    /// Evaluates into a given register of the right file.
    pub fn evaluate_to(&mut self, e: &Expr, to: Reg) -> Result<(), InterpError> {
        let ty = self.type_of(e)?;
        if is_leaf(e) {
            let a = self.leaf(e)?;
            self.emit(Inst::Move { file: file(ty), to, a });
            return Ok(());
        }
        self.operation(e, ty, to)
    }

    fn operation(&mut self, e: &Expr, ty: Type, to: Reg) -> Result<(), InterpError> {
        let inst = match e {
            Expr::Load(buffer, index) => {
                let index = self.typed(index, Type::Int)?;
                Inst::Load { file: file(ty), to, buffer: buffer.0 as u32, index, offset: 0 }
            }
            Expr::Neg(a) => {
                let a = self.typed(a, ty)?;
                match ty {
                    Type::F32 | Type::F64 => Inst::RealNeg { to, a },
                    Type::Int => Inst::IntNeg { to, a },
                    Type::Bool => return Err(self.malformed("a negative truth value")),
                }
            }
            Expr::Not(a) => Inst::Not { to, a: self.typed(a, Type::Bool)? },
            Expr::Binary(op @ (Op::And | Op::Or), a, b) => return self.short_circuit(*op, a, b, to),
            Expr::Binary(op, a, b) => self.binary(*op, a, b, ty, to)?,
            Expr::Compare(cmp, a, b) => self.comparison(*cmp, a, b, to)?,
            Expr::Select(cond, a, b) => return self.select(cond, a, b, ty, to),
            // Correctly rounded, which is within what the kernel asks for.
            Expr::Call(Math::Reciprocal, args) if args.len() == 1 => {
                self.binary(Op::Div, &Expr::Real(1.0, ty), &args[0], ty, to)?
            }
            Expr::Call(function, args) => self.call(*function, args, ty, to)?,
            Expr::Cast(ty, a) => self.cast(*ty, a, to)?,
            _ => Inst::Move { file: file(ty), to, a: self.leaf(e)? },
        };
        self.emit(inst);
        Ok(())
    }

    fn binary(&mut self, op: Op, a: &Expr, b: &Expr, ty: Type, to: Reg) -> Result<Inst, InterpError> {
        let a = self.typed(a, ty)?;
        let b = self.typed(b, ty)?;
        match (precision(ty), op) {
            (Some(_), Op::Rem) => Err(self.malformed("a remainder of reals")),
            (Some(precision), _) => Ok(Inst::Real { op, precision, to, a, b }),
            (None, _) if ty == Type::Int => Ok(Inst::Int { op, to, a, b }),
            (None, _) => Err(self.malformed("arithmetic on truth values")),
        }
    }

    fn comparison(&mut self, cmp: Cmp, a: &Expr, b: &Expr, to: Reg) -> Result<Inst, InterpError> {
        let (a, ty) = self.evaluate(a)?;
        let b = self.typed(b, ty)?;
        if ty == Type::Bool && !matches!(cmp, Cmp::Eq | Cmp::Ne) {
            return Err(self.malformed("an order of truth values"));
        }
        Ok(Inst::Compare { file: file(ty), cmp, to, a, b })
    }

    fn call(&mut self, function: Math, args: &[Expr], ty: Type, to: Reg) -> Result<Inst, InterpError> {
        let Some(precision) = precision(ty) else {
            return Err(self.malformed("a function of something else than reals"));
        };
        if args.len() != function.arity() {
            return Err(self.malformed(format!("{function:?} of {} arguments", args.len())));
        }
        let mut registers = [0; 3];
        for (register, arg) in registers.iter_mut().zip(args) {
            *register = self.typed(arg, ty)?;
        }
        Ok(Inst::Call { function, precision, to, args: registers })
    }

    fn cast(&mut self, ty: Type, a: &Expr, to: Reg) -> Result<Inst, InterpError> {
        let (a, from) = self.evaluate(a)?;
        match (precision(from), precision(ty)) {
            (Some(_), Some(precision)) => Ok(Inst::Convert { precision, to, a }),
            (None, Some(precision)) if from == Type::Int => Ok(Inst::FromInt { precision, to, a }),
            (Some(_), None) if ty == Type::Int => Ok(Inst::Truncate { to, a }),
            (None, None) if from == ty => Ok(Inst::Move { file: file(ty), to, a }),
            _ => Err(self.malformed(format!("a conversion from {from:?} to {ty:?}"))),
        }
    }

    /// `a && b`, `a || b`: the second operand only for the lanes that need it. Goes through a temporary, for the
    /// second operand may read the target.
    fn short_circuit(&mut self, op: Op, a: &Expr, b: &Expr, to: Reg) -> Result<(), InterpError> {
        let result = self.register(File::Bool);
        self.typed_to(a, Type::Bool, result)?;
        let cond = match op {
            Op::And => result,
            _ => {
                let not = self.register(File::Bool);
                self.emit(Inst::Not { to: not, a: result });
                not
            }
        };
        let start = self.emit(Inst::If { cond, otherwise: 0 });
        self.typed_to(b, Type::Bool, result)?;
        let middle = self.otherwise(start);
        self.end_if(middle);
        self.emit(Inst::Move { file: File::Bool, to, a: result });
        Ok(())
    }

    /// Only the chosen side is evaluated, unless both are free.
    fn select(&mut self, cond: &Expr, a: &Expr, b: &Expr, ty: Type, to: Reg) -> Result<(), InterpError> {
        let cond = self.typed(cond, Type::Bool)?;
        if self.type_of(b)? != ty {
            return Err(self.malformed("a selection from two types"));
        }
        if is_leaf(a) && is_leaf(b) {
            let (a, b) = (self.leaf(a)?, self.leaf(b)?);
            self.emit(Inst::Pick { file: file(ty), to, cond, a, b });
            return Ok(());
        }
        let start = self.emit(Inst::If { cond, otherwise: 0 });
        self.evaluate_to(a, to)?;
        let middle = self.otherwise(start);
        self.evaluate_to(b, to)?;
        self.end_if(middle);
        Ok(())
    }

    fn leaf(&mut self, e: &Expr) -> Result<Reg, InterpError> {
        let register = match e {
            Expr::Real(value, ty) => self.reals.get(&(value.to_bits(), *ty == Type::F32)).copied(),
            Expr::Int(value) => self.ints.get(value).copied(),
            Expr::Bool(value) => self.bools.get(value).copied(),
            Expr::Lane(axis) => self.code.lane.get(usize::from(*axis)).copied().flatten(),
            Expr::Block(axis) => self.code.block.get(usize::from(*axis)).copied().flatten(),
            Expr::Var(var) => self.vars.get(var.0).copied(),
            _ => None,
        };
        register.ok_or_else(|| self.malformed("an expression without a value"))
    }

    /// Gives a constant or a position its register.
    pub fn constant(&mut self, e: &Expr) {
        match e {
            Expr::Real(value, ty) => self.real_constant(*value, *ty),
            Expr::Int(value) if !self.ints.contains_key(value) => {
                let register = self.register(File::Int);
                self.ints.insert(*value, register);
                self.code.int_constants.push((register, *value));
            }
            Expr::Bool(value) if !self.bools.contains_key(value) => {
                let register = self.register(File::Bool);
                self.bools.insert(*value, register);
                self.code.bool_constants.push((register, *value));
            }
            Expr::Lane(axis) | Expr::Block(axis) => self.position(matches!(e, Expr::Lane(_)), usize::from(*axis)),
            // It is a division of one.
            Expr::Call(Math::Reciprocal, _) => {
                [Type::F32, Type::F64].into_iter().for_each(|ty| self.real_constant(1.0, ty))
            }
            _ => {}
        }
    }

    fn real_constant(&mut self, value: f64, ty: Type) {
        let key = (value.to_bits(), ty == Type::F32);
        if let (Some(precision), false) = (precision(ty), self.reals.contains_key(&key)) {
            let register = self.register(File::Real);
            self.reals.insert(key, register);
            self.code.real_constants.push((register, value, precision));
        }
    }

    fn position(&mut self, of_lane: bool, axis: usize) {
        let positions = if of_lane { self.code.lane } else { self.code.block };
        if positions.get(axis) == Some(&None) {
            let register = self.register(File::Int);
            let positions = if of_lane { &mut self.code.lane } else { &mut self.code.block };
            positions[axis] = Some(register);
        }
    }
}

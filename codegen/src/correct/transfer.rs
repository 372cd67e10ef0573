//! Kernels that move vectors between precisions.
//!
//! All take two vectors of one length, and [`Transfer::Assign`] and [`Transfer::Add`] a number in a buffer of one
//! element, read in f64. A pass each: what a correction costs beside its residual.

use crate::kernel::{
    Access, Buffer, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, LoopKind, Op, Space, Stmt, Type, VarId, Variable,
};
use crate::map::Target;

/// Lanes of a block on a device.
const LANES: u64 = 256;
/// Elements of a block on the host.
const PIECE: u64 = 1 << 14;

/// What is done with every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// `to = scale * from`, from f64 to f32. Arguments: from, scale, to.
    Assign,
    /// `to = to + scale * from`, from f32 to f64. Arguments: from, scale, to.
    Add,
    /// `to = 0`, f32. Argument: to.
    Clear,
}

impl Transfer {
    /// The kernel for vectors of a length.
    pub fn kernel(self, target: Target, len: u64) -> Kernel {
        let (name, doc) = match self {
            Transfer::Assign => ("restrict_residual", "right-hand side of the correction in f32: scale * residual"),
            Transfer::Add => ("add_correction", "solution in f64: solution + scale * correction"),
            Transfer::Clear => ("clear_correction", "the correction starts at zero"),
        };
        // Positions run past the end by less than a block.
        let wide = len + PIECE > i32::MAX as u64;
        let mut kernel = Kernel {
            name: name.to_owned(),
            doc: vec![doc.to_owned()],
            buffers: self.buffers(len),
            grid: [1; 3],
            lanes: [1; 3],
            resident_blocks: None,
            simd_width: None,
            index: if wide { IndexWidth::I64 } else { IndexWidth::I32 },
            vars: Vec::new(),
            body: Vec::new(),
        };
        match target {
            Target::Host => self.host(&mut kernel, len),
            Target::Cuda => self.cuda(&mut kernel, len),
        }
        kernel
    }

    fn buffers(self, len: u64) -> Vec<Buffer> {
        let buffer = |name: &str, element, extent, access| Buffer {
            name: name.to_owned(),
            space: Space::Global,
            element,
            extent,
            access,
        };
        let scale = buffer("scale", Element::F64, 1, Access::Read);
        match self {
            Transfer::Assign => vec![
                buffer("residual", Element::F64, len, Access::Read),
                scale,
                buffer("rhs", Element::F32, len, Access::Write),
            ],
            Transfer::Add => vec![
                buffer("correction", Element::F32, len, Access::Read),
                scale,
                buffer("solution", Element::F64, len, Access::ReadWrite),
            ],
            Transfer::Clear => vec![buffer("correction", Element::F32, len, Access::Write)],
        }
    }

    /// What happens at an index.
    fn at(self, index: &Expr) -> Stmt {
        let load = |buffer: usize, index: Expr| Expr::Load(BufferId(buffer), Box::new(index));
        let scale = || load(1, Expr::Int(0));
        let (buffer, value) = match self {
            Transfer::Assign => (2, cast(Type::F32, binary(Op::Mul, scale(), load(0, index.clone())))),
            Transfer::Add => {
                let scaled = binary(Op::Mul, scale(), cast(Type::F64, load(0, index.clone())));
                (2, binary(Op::Add, load(2, index.clone()), scaled))
            }
            Transfer::Clear => (0, Expr::Real(0.0, Type::F32)),
        };
        Stmt::Store { buffer: BufferId(buffer), index: index.clone(), value }
    }

    /// A block runs over a piece.
    fn host(self, kernel: &mut Kernel, len: u64) {
        kernel.grid[0] = len.div_ceil(PIECE).max(1);
        let first = declare(kernel, "first");
        let last = declare(kernel, "last");
        let i = declare(kernel, "i");
        let end = binary(Op::Add, Expr::Var(first), Expr::Int(PIECE as i64));
        kernel.body = vec![
            Stmt::Let(first, binary(Op::Mul, Expr::Block(0), Expr::Int(PIECE as i64))),
            Stmt::Let(last, binary(Op::Min, end, Expr::Int(len as i64))),
            Stmt::For {
                var: i,
                from: Expr::Var(first),
                to: Expr::Var(last),
                step: 1,
                kind: LoopKind::Simd(Vec::new()),
                body: vec![self.at(&Expr::Var(i))],
            },
        ];
    }

    /// A lane an element.
    fn cuda(self, kernel: &mut Kernel, len: u64) {
        kernel.grid[0] = len.div_ceil(LANES).max(1);
        kernel.lanes[0] = LANES as u32;
        let i = declare(kernel, "i");
        let base = binary(Op::Mul, Expr::Block(0), Expr::Int(LANES as i64));
        let inside = Expr::Compare(Cmp::Lt, Box::new(Expr::Var(i)), Box::new(Expr::Int(len as i64)));
        kernel.body = vec![
            Stmt::Let(i, binary(Op::Add, base, Expr::Lane(0))),
            Stmt::If { cond: inside, then: vec![self.at(&Expr::Var(i))], otherwise: Vec::new() },
        ];
    }
}

fn declare(kernel: &mut Kernel, name: &str) -> VarId {
    kernel.vars.push(Variable { name: name.to_owned(), ty: Type::Int });
    VarId(kernel.vars.len() - 1)
}

fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn cast(ty: Type, e: Expr) -> Expr {
    Expr::Cast(ty, Box::new(e))
}

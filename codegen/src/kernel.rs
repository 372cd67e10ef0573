//! Kernel IR: one kernel as the printers, the interpreter and the verifier see it.
//!
//! # Semantics
//! A kernel runs over a grid of *blocks*; a block has `lanes[0] * lanes[1] * lanes[2]` *lanes* (x fastest). Every
//! lane has its own variables and its own copy of each private buffer; shared buffers belong to the block, global
//! buffers to the launch. Statements run in order on all active lanes; between two lanes there is no order but that
//! of a [`Stmt::Barrier`]. CUDA maps lanes to threads. Kernels for the host have one lane a block and say
//! [`LoopKind::Simd`] where iterations are independent.
//!
//! Floating-point arithmetic is that of the operand type; both operands of an operation have the same type. Integers
//! are of the kernel's [`IndexWidth`] and must not overflow. Division of integers truncates; operands are never
//! negative where it is used.
//!
//! # Invariants (checked by [`verify`](crate::kernel_verify))
//! - every variable is declared once, before use, in an enclosing block; only `Declare`d ones are assigned;
//! - expressions are well typed; indices and loop bounds are integers, conditions are booleans;
//! - only global and shared buffers that are not read-only, and private ones, are stored to;
//! - barriers, shuffles and `ExitIf` stand where control flow does not depend on the lane;
//! - `ExitIf` stands at the top level; where there are barriers of the grid, all blocks leave or none;
//! - names of variables and buffers are unique identifiers, valid in C and CUDA C++;
//! - a host kernel (one lane) has no shared buffers, barriers or shuffles.

/// A kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Identifier, also the name of the generated function.
    pub name: String,
    /// Header lines: what it computes (statements of the program) and the variant.
    pub doc: Vec<String>,
    /// All buffers. The global ones, in this order, are the arguments of the function.
    pub buffers: Vec<Buffer>,
    /// Blocks along x, y, z.
    pub grid: [u64; 3],
    /// Lanes of a block along x, y, z (product at most 1024; one on the host).
    pub lanes: [u32; 3],
    /// Blocks a multiprocessor should hold at least (launch bounds), if it matters.
    pub resident_blocks: Option<u32>,
    /// Iterations of a [`LoopKind::Simd`] loop that should run side by side (a power of two); none leaves it to the compiler.
    pub simd_width: Option<u32>,
    /// Width of integers.
    pub index: IndexWidth,
    /// Variables, by [`VarId`].
    pub vars: Vec<Variable>,
    /// Statements.
    pub body: Vec<Stmt>,
}

/// Lanes that a multiprocessor holds.
pub const MULTIPROCESSOR_LANES: u32 = 2048;
/// Multiprocessors of the device that default shapes are made for.
pub const MULTIPROCESSORS: u64 = 132;

/// Width of index arithmetic, decided from the largest extent: 64 bits at 2^31 elements and above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IndexWidth {
    I32,
    I64,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    F32,
    F64,
    /// Index of the kernel's width.
    Int,
    Bool,
}

/// Type of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Element {
    F32,
    F64,
    I16,
    U16,
    I32,
    U32,
    I64,
}

/// Index into [`Kernel::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// Index into [`Kernel::vars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub usize);

/// A buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Identifier.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Element type; integers of any width load as [`Type::Int`].
    pub element: Element,
    /// Number of elements (per lane for private buffers).
    pub extent: u64,
    /// What the kernel does with it.
    pub access: Access,
}

/// Memory spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    Global,
    Shared,
    Private,
}

/// Use of a buffer by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Access {
    /// Never stored to by any lane of the launch (printed `const __restrict__`).
    Read,
    /// The same, and every element is loaded about once: caches need not keep it (CUDA: `ld.cs`, the first to leave).
    ReadOnce,
    /// Only stored to.
    Write,
    ReadWrite,
}

impl Access {
    /// Whether no lane stores.
    pub fn is_read(self) -> bool {
        matches!(self, Access::Read | Access::ReadOnce)
    }
}

/// A variable of a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Identifier, named after the program or its role.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Statements.
#[derive(Debug, Clone, PartialEq)]
pub enum Stmt {
    /// A comment line: the statement of the program that the next lines compute.
    Comment(String),
    /// Declares an immutable variable.
    Let(VarId, Expr),
    /// Declares a variable that is assigned later.
    Declare(VarId, Expr),
    /// Assigns a declared variable.
    Assign(VarId, Expr),
    /// `buffer[index] = value`; floating-point and integer values convert to the element type (never F64 to F32 silently:
    /// the value has the buffer's type).
    Store {
        /// Target.
        buffer: BufferId,
        /// Element index.
        index: Expr,
        /// Value.
        value: Expr,
    },
    /// Declares several variables from consecutive elements, `index` a multiple of their number (2 or 4).
    LoadWide {
        /// Variables in order.
        vars: Vec<VarId>,
        /// Source.
        buffer: BufferId,
        /// Index of the first element.
        index: Expr,
    },
    /// Stores consecutive elements, `index` a multiple of their number (2 or 4).
    StoreWide {
        /// Target.
        buffer: BufferId,
        /// Index of the first element.
        index: Expr,
        /// Values in order.
        values: Vec<Expr>,
    },
    /// Counted loop; the variable is declared by it.
    For {
        /// Loop variable, an integer.
        var: VarId,
        /// First value.
        from: Expr,
        /// Bound, exclusive: runs while `var < to` (step > 0) or `var > to` (step < 0). Reads nothing the body changes.
        to: Expr,
        /// Step, not zero.
        step: i64,
        /// How iterations may run.
        kind: LoopKind,
        /// Statements.
        body: Vec<Stmt>,
    },
    /// Two-way branch.
    If {
        /// Condition.
        cond: Expr,
        /// Taken when true.
        then: Vec<Stmt>,
        /// Taken when false.
        otherwise: Vec<Stmt>,
    },
    /// Ends the kernel for the whole block when true; the condition is the same for all lanes.
    ExitIf(Expr),
    /// Waits for all lanes of the block, or of the grid (cooperative launch), and orders their memory accesses.
    Barrier(Scope),
    /// Declares `var` as `value` of another lane of the same group of `width` lanes (a power of two up to 32);
    /// lanes without a source keep their own value.
    Shuffle {
        /// Result.
        var: VarId,
        /// Contribution of this lane.
        value: Expr,
        /// Which lane to read.
        mode: Shuffle,
        /// Group size.
        width: u32,
    },
    /// Declares `old` as the value before adding an integer, as one indivisible step (device-wide order).
    AtomicAdd {
        /// Value before.
        old: VarId,
        /// An `I32` buffer.
        buffer: BufferId,
        /// Element index.
        index: Expr,
        /// Integer to add.
        value: Expr,
    },
    /// A hint that an element of a global buffer will soon be read or written.
    Prefetch {
        /// Buffer.
        buffer: BufferId,
        /// Element index, within the extent.
        index: Expr,
    },
    /// Makes this lane's earlier global stores visible to the device before its later ones.
    Fence,
}

/// How the iterations of a loop may run.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopKind {
    /// In order.
    Sequential,
    /// In order; the printer asks for unrolling by this factor (0: completely).
    Unroll(u32),
    /// Independent but for sums into the named variables, which may be reassociated (host).
    Simd(Vec<VarId>),
}

/// Who waits at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scope {
    Block,
    Grid,
}

/// Source lane of a shuffle.
#[derive(Debug, Clone, PartialEq)]
pub enum Shuffle {
    /// Own position + n.
    Down(u32),
    /// Own position - n.
    Up(u32),
    /// Own position XOR n.
    Xor(u32),
    /// An explicit position in the group.
    Index(Expr),
}

/// Expressions; free of side effects.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Floating-point constant of a type; the printer writes the shortest exact text.
    Real(f64, Type),
    /// Integer constant.
    Int(i64),
    /// Truth value.
    Bool(bool),
    /// A variable.
    Var(VarId),
    /// Position of the lane in its block along x, y or z (0, 1, 2).
    Lane(u8),
    /// Position of the block in the grid along x, y or z (0, 1, 2).
    Block(u8),
    /// `buffer[index]`.
    Load(BufferId, Box<Expr>),
    /// `-a`.
    Neg(Box<Expr>),
    /// `!a`.
    Not(Box<Expr>),
    /// Arithmetic or logic on two operands of one type.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// Comparison of two operands of one type; the result is a truth value.
    Compare(Cmp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; only the chosen side is evaluated.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A function of floating-point arguments.
    Call(Math, Vec<Expr>),
    /// Conversion (real to real, integer to real; real to integer truncates).
    Cast(Type, Box<Expr>),
}

/// Binary operators. `Add` … `Div` on reals and integers, `Rem`, on integers, `Min`, `Max` on both, `And`, `Or`
/// on truth values (short circuit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Cmp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

/// Functions of reals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Math {
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Tanh,
    Abs,
    Floor,
    Pow,
    /// a * b + c with one rounding.
    Fma,
    /// 1 / a within one unit in the last place (a division rounds to half of one); infinities and zeros as a division.
    Reciprocal,
    /// 1 when the argument is neither infinite nor NaN, else 0.
    IsFinite,
}

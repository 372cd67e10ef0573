//! Statements of Kernel IR on one line, for messages.

use crate::kernel::{BufferId, Cmp, Expr, Kernel, Math, Op, Shuffle, Stmt, Type, VarId};

/// The head of a statement (without bodies).
pub(super) fn statement(kernel: &Kernel, stmt: &Stmt) -> String {
    let text = |e: &Expr| expr(kernel, e);
    match stmt {
        Stmt::Comment(line) => format!("// {line}"),
        Stmt::Let(v, e) => format!("let {} = {}", var(kernel, *v), text(e)),
        Stmt::Declare(v, e) => format!("var {} = {}", var(kernel, *v), text(e)),
        Stmt::Assign(v, e) => format!("{} = {}", var(kernel, *v), text(e)),
        Stmt::Store { buffer: b, index, value } => format!("{}[{}] = {}", buffer(kernel, *b), text(index), text(value)),
        Stmt::LoadWide { vars, buffer: b, index } => {
            let vars = vars.iter().map(|v| var(kernel, *v)).collect::<Vec<_>>().join(", ");
            format!("let {vars} = {}[{} ..]", buffer(kernel, *b), text(index))
        }
        Stmt::StoreWide { buffer: b, index, values } => {
            let values = values.iter().map(text).collect::<Vec<_>>().join(", ");
            format!("{}[{} ..] = {values}", buffer(kernel, *b), text(index))
        }
        Stmt::For { var: v, from, to, step, .. } => {
            format!("for {} from {} to {} step {step}", var(kernel, *v), text(from), text(to))
        }
        Stmt::If { cond, .. } => format!("if {}", text(cond)),
        Stmt::ExitIf(cond) => format!("exit if {}", text(cond)),
        Stmt::Barrier(scope) => format!("barrier {scope:?}").to_lowercase(),
        Stmt::Shuffle { var: v, value, mode, width } => {
            format!("let {} = shuffle {} {} width {width}", var(kernel, *v), text(value), source(kernel, mode))
        }
        Stmt::AtomicAdd { old, buffer: b, index, value } => {
            format!("let {} = atomic {}[{}] += {}", var(kernel, *old), buffer(kernel, *b), text(index), text(value))
        }
        Stmt::Fence => "fence".into(),
    }
}

fn var(kernel: &Kernel, id: VarId) -> &str {
    kernel.vars.get(id.0).map_or("?", |var| &var.name)
}

fn buffer(kernel: &Kernel, id: BufferId) -> &str {
    kernel.buffers.get(id.0).map_or("?", |buffer| &buffer.name)
}

fn source(kernel: &Kernel, mode: &Shuffle) -> String {
    match mode {
        Shuffle::Down(n) => format!("down {n}"),
        Shuffle::Up(n) => format!("up {n}"),
        Shuffle::Xor(n) => format!("xor {n}"),
        Shuffle::Index(e) => format!("from {}", expr(kernel, e)),
    }
}

fn expr(kernel: &Kernel, e: &Expr) -> String {
    let text = |e: &Expr| expr(kernel, e);
    let axis = |n: u8| ["x", "y", "z"].get(usize::from(n)).copied().unwrap_or("?");
    match e {
        Expr::Real(value, Type::F32) => format!("{value:?}f"),
        Expr::Real(value, _) => format!("{value:?}"),
        Expr::Int(value) => value.to_string(),
        Expr::Bool(value) => value.to_string(),
        Expr::Var(v) => var(kernel, *v).into(),
        Expr::Lane(n) => format!("lane.{}", axis(*n)),
        Expr::Block(n) => format!("block.{}", axis(*n)),
        Expr::Load(b, index) => format!("{}[{}]", buffer(kernel, *b), text(index)),
        Expr::Neg(a) => format!("-{}", text(a)),
        Expr::Not(a) => format!("!{}", text(a)),
        Expr::Binary(op @ (Op::Min | Op::Max), a, b) => format!("{}({}, {})", symbol(*op), text(a), text(b)),
        Expr::Binary(op, a, b) => format!("({} {} {})", text(a), symbol(*op), text(b)),
        Expr::Compare(cmp, a, b) => format!("({} {} {})", text(a), comparison(*cmp), text(b)),
        Expr::Select(c, a, b) => format!("({} ? {} : {})", text(c), text(a), text(b)),
        Expr::Call(function, args) => {
            format!("{}({})", name(*function), args.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        Expr::Cast(ty, a) => format!("{}({})", format!("{ty:?}").to_lowercase(), text(a)),
    }
}

fn symbol(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Div => "/",
        Op::Rem => "%",
        Op::Min => "min",
        Op::Max => "max",
        Op::And => "&&",
        Op::Or => "||",
    }
}

fn comparison(cmp: Cmp) -> &'static str {
    match cmp {
        Cmp::Lt => "<",
        Cmp::Le => "<=",
        Cmp::Gt => ">",
        Cmp::Ge => ">=",
        Cmp::Eq => "==",
        Cmp::Ne => "!=",
    }
}

fn name(function: Math) -> String {
    match function {
        Math::IsFinite => "is_finite".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

kernelwright::solver! {
    mine(A: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat {
            u = u + alpha*r;
            r = f - A*u;
            check;
        }
    }
}

fn main() {}

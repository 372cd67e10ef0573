//! A command of one's own that knows the programs of this binary by name:
//! `cargo run -p kernelwright-examples --example 05_own_command -- solve tank`.

use std::process::ExitCode;

kernelwright::program! {
    /// Pressure in a tank that is open at the top.
    operator tank {
        grid cells [i: nx, k: nz];
        flux X[i+1/2] = u[i+1] - u;
        flux Z[k+1/2] = u[k+1] - u;
        apply u => -(div(X) + div(Z));
        boundary i: no_flux;
        boundary low(k): no_flux;
        boundary high(k): dirichlet(0);
        claim symmetric, positive_definite;
    }

    /// A source at the bottom.
    problem tank {
        operator tank(nx = 32, nz = 24);
        rhs if k == 0 { 1 } else { 0 };
        solver pcg;
        preconditioner line(k);
        tolerance 1e-8;
        iterations 500;
    }
}

fn main() -> ExitCode {
    kernelwright::cli::main()
}

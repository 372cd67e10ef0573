kernelwright::operator! {
    heat {
        grid cells [i: n];
        param tau;
        flux X[i+1/2] = u[i+1] - u;
        apply u => u - tua*div(X);
        boundary i: no_flux;
    }
}

fn main() {}

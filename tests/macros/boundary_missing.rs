kernelwright::operator! {
    heat {
        grid cells [i: nx, j: ny];
        apply u => 4*u - u[i-1] - u[i+1] - u[j-1] - u[j+1];
        boundary i: periodic;
    }
}

fn main() {}

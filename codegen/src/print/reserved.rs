//! Names that generated code cannot use, because C, CUDA C++ or the printers use them.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Whether a name is a plain identifier: ASCII letters, digits and single underscores, beginning with a letter.
/// (Leading and double underscores belong to the implementations of C and C++.)
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.contains("__")
}

/// Whether a name is taken in C or CUDA C++ and cannot name a variable, buffer or kernel.
pub fn is_reserved(name: &str) -> bool {
    static WORDS: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let lists = [C_WORDS, CXX_WORDS, MACROS, CUDA_WORDS, PRINTED];
    let words = WORDS.get_or_init(|| lists.iter().flat_map(|list| list.split(' ')).collect());
    words.contains(name) || is_vector_type(name)
}

/// Whether a name is a function of the C library that compilers know; it can name a variable but not a kernel.
pub fn is_library_function(name: &str) -> bool {
    let stem = name.strip_suffix(['f', 'l']).unwrap_or(name);
    has(LIBRARY, name) || has(MATH_LIBRARY, name) || has(MATH_LIBRARY, stem)
}

fn has(list: &str, name: &str) -> bool {
    list.split(' ').any(|word| word == name)
}

/// `float4`, `make_float4`, …
fn is_vector_type(name: &str) -> bool {
    let name = name.strip_prefix("make_").unwrap_or(name);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.len() < name.len() && has(VECTOR_STEMS, stem)
}

const VECTOR_STEMS: &str = "\
    char uchar short ushort int uint long ulong longlong ulonglong float double dim";

const C_WORDS: &str = "\
    auto break case char const continue default do double else enum extern float for goto if inline int long \
    register restrict return short signed sizeof static struct switch typedef typeof union unsigned void \
    volatile while asm fortran";

const CXX_WORDS: &str = "\
    alignas alignof and and_eq bitand bitor bool catch char16_t char32_t char8_t class co_await co_return \
    co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit \
    export false friend module import mutable namespace new noexcept not not_eq nullptr operator or or_eq \
    private protected public reinterpret_cast requires static_assert static_cast template this thread_local \
    throw true try typeid typename using virtual wchar_t xor xor_eq final override main std";

/// Macros that compilers or `<math.h>` define.
const MACROS: &str = "\
    linux unix i386 INFINITY NAN NULL HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERRNO MATH_ERREXCEPT FP_NAN FP_INFINITE \
    FP_ZERO FP_SUBNORMAL FP_NORMAL FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL M_E M_LOG2E \
    M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2 MAXFLOAT DOMAIN SING \
    OVERFLOW UNDERFLOW PLOSS TLOSS fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal \
    isless islessequal islessgreater isunordered math_errhandling float_t double_t";

/// Built-in variables and functions of CUDA that the printer writes or that others may.
const CUDA_WORDS: &str = "\
    threadIdx blockIdx blockDim gridDim warpSize min max atomicAdd half clock clock64 size_t assert";

/// Names and functions the printers write themselves.
const PRINTED: &str = "\
    block_x block_y block_z buffers lane lane_x lane_y lane_z shared_memory min_int max_int min_long max_long \
    wait_for_grid sqrt sqrtf exp expf log logf sin sinf cos cosf tan tanf tanh tanhf fabs fabsf floor floorf \
    pow powf fma fmaf fmin fminf fmax fmaxf choose_float choose_double memcpy \
    reciprocal_float";

/// Functions of `<math.h>` without their `f` and `l` variants, and extensions of the usual C libraries.
const MATH_LIBRARY: &str = "\
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs \
    fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 \
    log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round \
    scalb scalbln scalbn significand signgam sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn";

/// Other functions the compilers have built in.
const LIBRARY: &str = "\
    abort abs alloca bcmp bcopy bzero cabs calloc carg cimag conj cpow cproj creal csqrt exit ffs fprintf fputc \
    fputs free fscanf fwrite imaxabs index isalnum isalpha isblank iscntrl isdigit isgraph islower isprint \
    ispunct isspace isupper isxdigit labs llabs malloc memchr memcmp memcpy memmove mempcpy memset printf putc \
    putchar puts realloc rindex scanf snprintf sprintf sscanf stpcpy strcat strchr strcmp strcpy strcspn strdup \
    strlen strncat strncmp strncpy strpbrk strrchr strspn strstr tolower toupper vprintf vsprintf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        for good in ["x", "rho_new", "z1", "K"] {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["", "1x", "_x", "a__b", "a-b", "é", "a b"] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }

    #[test]
    fn reserved() {
        for name in ["while", "template", "threadIdx", "float4", "make_double2", "min", "block_x", "sqrtf", "linux"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["x", "floats", "float_4", "make", "rho", "gamma", "y1"] {
            assert!(!is_reserved(name), "{name}");
        }
        for name in ["gamma", "y1", "lgammaf", "printf", "expl"] {
            assert!(is_library_function(name), "{name}");
        }
        assert!(!is_library_function("update_u_r"));
    }
}

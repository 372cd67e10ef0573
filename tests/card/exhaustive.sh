#!/bin/sh
# Holds the tuner's guided search against the exhaustive one, kernel by kernel, and prints the rows of the table in
# docs/performance.md: sweeps of pressure correction at two sizes in two precisions, and products of three matrices in csr. "ratio" is
# of the times that the two searches took, each in a process of its own; of sweeps "head to head" is the guided search's kernel over
# the exhaustive one's, sampled in turns in one process: the median of the ratios, and their quartiles.
# Usage: exhaustive.sh KERNELWRIGHT PROGRAMS OUT [CASE ...]
#   KERNELWRIGHT  the command, built with --release
#   PROGRAMS      folder with pressure_correction.kw
#   OUT           folder for what is measured: exhaustive.md (what is printed) and exhaustive.tar (what each command printed and
#                 every measurement, a line of JSON each); OUT/exhaustive is made anew, and taken away
#   CASE          N-PRECISION for N x N x min(N/2, 128) points, or KIND-PRECISION of a matrix at 10 % of its size; without one, all
#                 of the table
# BACKEND is cuda or host; KERNELS are the kernels of pressure correction to search, FORMAT is the format of matrices. LONG is
# the seconds that an exhaustive search of sweeps may take (260), MATRIX that of a product (160), SHORT a guided one (30), TURNS
# the comparison of both (30).
set -u
command=$1 program=$2/pressure_correction.kw place=$3 out=$3/exhaustive
shift 3
[ $# -gt 0 ] ||
    set -- 256-f32 256-f64 1024-f32 1024-f64 poisson7-f32 poisson7-f64 samg-like-f32 samg-like-f64 powerlaw-f32 powerlaw-f64
rm -rf "$out"
mkdir -p "$out"
export KERNELWRIGHT_CACHE="$place/exhaustive.cache"
rm -rf "$KERNELWRIGHT_CACHE"

# Lines "kernel|looked at|of|default|best|chosen" of the table of kernels that a tune printed.
kernels() {
    sed -n '/^Kernels$/,/^$/p' "$1" | awk '
        NR > 2 && $3 == "of" { print $1 "|" $2 "|" $4 "|" $5 " " $6 "|" $7 " " $8 "|" seen($0) }
        function seen(line) { sub(/.*  /, "", line); return line }'
}

# One tune; seconds that it took. Name, arguments.
tune() {
    name=$1
    shift
    started=$(date +%s.%N)
    KERNELWRIGHT_TUNED="$out/$name.store" "$command" tune "$@" --backend "${BACKEND-cuda}" > "$out/$name.txt" 2> "$out/$name.log" ||
        tail -3 "$out/$name.log" >&2
    echo "$started $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }'
}

# Lines "kernel|head to head" of a comparison's tables.
compared() {
    sed -n 's/^\([^ ]*\) of .* turns$/\1|/p; s/.*-guided\.store over .*: \(.*\), quartiles \(.*\)/\1 (\2)/p
        s/.*-guided\.store over .*: \(the same kernel\)/\1/p' "$1" | awk '/\|$/ { kernel = $0; next } { print kernel $0 }'
}

measure() {
    "$command" doctor 2>&1 | head -12
    echo
    echo "| | looked at | of | default | guided | exhaustive | ratio | head to head | took | chosen by each |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for case; do
        what=${case%-*} precision=${case##*-} long=${MATRIX-160}
        case $what in
            [0-9]*)
                long=${LONG-260} levels=$((what / 2 < 128 ? what / 2 : 128))
                set -- "$program" --set nx="$what" --set ny="$what" --set nz=$levels --schedule "${SCHEDULE-2_sweeps_9_5_words_every_2}"
                for kernel in ${KERNELS-r_r_squared_z_rho_new q_sigma_p}; do set -- "$@" --kernel "$kernel"; done
                ;;
            *) set -- --kind "$what" --scale 0.1 --format "${FORMAT-csr}" ;;
        esac
        guided=$(tune "$case-guided" "$@" --precision "$precision" --budget "${SHORT-30}s")
        exhaustive=$(tune "$case-exhaustive" "$@" --precision "$precision" --exhaustive --budget "${long}s")
        case $what in
            [0-9]*)
                tune "$case-compared" "$@" --precision "$precision" --budget "${TURNS-30}s" \
                    --compare "$out/$case-guided.store" --compare "$out/$case-exhaustive.store" > /dev/null
                compared "$out/$case-compared.txt" > "$out/c"
                ;;
            *) : > "$out/c" ;;
        esac
        kernels "$out/$case-guided.txt" > "$out/a"
        kernels "$out/$case-exhaustive.txt" > "$out/b"
        paste -d'|' "$out/a" "$out/b" | awk -F'|' -v case="$case" -v took="$guided and $exhaustive s" '
            FILENAME != "-" { head[$1] = $2; next }
            function us(text, part) { split(text, part, " "); return part[1] * (part[2] == "ms" ? 1000 : 1) }
            { printf "| %s %s | %s and %s | %s | %s | %s | %s | %.3f | %s | %s | %s; %s |\n", \
                case, $1, $2, $8, $9, $10, $5, $11, us($5) / us($11), head[$1], took, $6, $12 }' "$out/c" -
        sed -n 2p "$out/$case-exhaustive.txt"
    done
}

measure "$@" 2>&1 | tee "$place/exhaustive.md"
rm -rf "$KERNELWRIGHT_CACHE"
tar -czf "$place/exhaustive.tar" -C "$place" exhaustive && rm -rf "$out"

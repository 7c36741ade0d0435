#!/bin/sh
# Compiles the CUDA C++ files of this folder to PTX. See README.md.
set -e
cd "$(dirname "$0")"
NVCC=${NVCC:-nvcc}
for file in ${*:-*.cu}; do
    case $file in
    atomics.cu | tensor.cu) arch=sm_90a ;;
    *) arch=sm_80 ;;
    esac
    out=${file%.cu}.ptx
    case $file in
    lines.cu) lines=-lineinfo ;;
    *) lines= ;;
    esac
    $NVCC -std=c++17 -arch=$arch $lines -ptx -o "$out" "$file"
    sed -i -e '/^\/\//d' -e '/^$/d' \
        -e 's#"[^"]*/include/\([^"]*\)"#"cuda/include/\1"#' -e 's#"/[^"]*/\([^/"]*\.cu\)"#"\1"#' "$out"
done

#!/bin/sh
# Installs requirement files with the tested versions:  deploy/install.sh PYTHON FILE...
#
# A torch that is already there (a CUDA or ROCm image, your own build) stays as it is. Where there
# is none, the tested one comes first and alone, so that no other package's wish decides which.
set -eu

python=$1
shift
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT

present=$("$python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true)
if [ -n "$present" ]; then
    sed "s/^torch==.*/torch==$present/" constraints.txt >"$constraints"
else
    cat constraints.txt >"$constraints"
    "$python" -m pip install --disable-pip-version-check -q -c "$constraints" torch
fi
for file in "$@"; do
    "$python" -m pip install --disable-pip-version-check -q -c "$constraints" -r "$file"
done

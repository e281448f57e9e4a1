#!/bin/sh
# What `gradproof check` says about a few files here: the right gradient first, then its
# wrong twin. Exits 0 when each ended as it should (0: no error found, 1: errors found).
cd "$(dirname "$0")/.." || exit 2
status=0

show() { # show EXPECTED_EXIT_CODE FILE [OPTION...]
    expected=$1
    shift
    echo
    echo "\$ gradproof check $*"
    gradproof check "$@"
    code=$?
    if [ "$code" -ne "$expected" ]; then
        echo "demo: expected exit code $expected from 'gradproof check $*' but got $code" >&2
        status=1
    fi
}

echo "==> A right gradient: one line, with the error that would have been seen"
show 0 examples/softplus.py

echo
echo "==> The same operation, with a backward that forgets grad_output"
show 1 examples/wrong/softplus.py

echo
echo "==> Layer normalisation, right, and with a term left out"
show 0 examples/layer_norm.py
show 1 examples/wrong/layer_norm.py

echo
echo "==> A forward and a backward in NumPy, right, and with its filter flipped"
show 0 examples/numpy_pair.py
show 1 examples/wrong/numpy_pair.py

exit $status

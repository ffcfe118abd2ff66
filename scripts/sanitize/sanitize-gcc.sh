#!/bin/sh
# The linker of sanitized programs. Rust passes -nodefaultlibs, which also drops the sanitizers' libraries. This script removes that option,
# so that the compiler adds them in the right order: first.
#
# usage: sanitize-gcc.sh ARGUMENT... (called by rustc; POOLWRIGHT_SANITIZE names the sanitizers)
for argument; do
    shift
    [ "$argument" = -nodefaultlibs ] || set -- "$@" "$argument"
done
exec cc "-fsanitize=$POOLWRIGHT_SANITIZE" "$@"

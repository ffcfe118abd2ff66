#!/bin/sh
# The linker of sanitized programs: Rust asks for no default libraries, and the sanitizers' are among them. They have to come
# first, which only the compiler's own order does.
#
# usage: sanitize-gcc.sh ARGUMENT... (called by rustc; POOLWRIGHT_SANITIZE names the sanitizers)
for argument; do
    shift
    [ "$argument" = -nodefaultlibs ] || set -- "$@" "$argument"
done
exec cc "-fsanitize=$POOLWRIGHT_SANITIZE" "$@"

# shellcheck shell=bash
# Shared by the scripts beside it: installing what is missing. Sourced, not run.

# need COMMAND PACKAGE…: installs Debian packages unless the command is there.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    shift
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "please install: $*" >&2
        exit 1
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "please install as root: apt-get install $*" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "installing: $*" >&2
    "${as_root[@]}" apt-get update -qq >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need_rust: says what to do where Cargo is missing; which toolchain to use is for its user to choose.
need_rust() {
    if ! command -v cargo >/dev/null 2>&1; then
        echo "please install Rust 1.91 or later, with Cargo" >&2
        exit 1
    fi
    need cc gcc libc6-dev
}

#!/usr/bin/env bash
# A Docker daemon of the tests' own, and images without a registry.
#   docker.sh install          Debian's docker.io and busybox-static (needs root)
#   docker.sh start FOLDER     a daemon that keeps everything in FOLDER and listens at FOLDER/docker.sock (needs root)
#   docker.sh images FOLDER    outlive-test (busybox), outlive-test-bare (not even a shell)
#   docker.sh python FOLDER    outlive-test-python: Debian's Python as it is installed here, and what it stands on
#   docker.sh stop FOLDER      its containers, it, and its containerd; by pid
# No bridge and no rules of iptables: containers of the tests have no network. Containers live on without the daemon.
set -euo pipefail

folder=${2:-}
socket=$folder/docker.sock
containerd=$folder/exec/containerd/containerd.pid

ask() { # ask METHOD PATH [curl's words]: the daemon, without the docker command
    local method=$1 path=$2
    shift 2
    curl --silent --show-error --fail --max-time 60 --unix-socket "$socket" -X "$method" "$@" "http://docker$path"
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # of the machine's own daemon nothing is started
    apt-get -qq install --no-install-recommends busybox-static ca-certificates curl docker.io iptables >/dev/null
}

start() {
    mkdir -p "$folder"
    # What one that was killed has left behind: where nobody reaps, its zombies would be taken for it and its containerd.
    is_alive "$(number "$folder/pid")" || rm -f "$folder/pid" "$socket"
    for _ in $(seq 20); do is_alive "$(number "$containerd")" && sleep 0.05 || break; done
    is_alive "$(number "$containerd")" || rm -f "$containerd"
    # Its own session: an interrupted test run does not take it along before the containers are removed.
    setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
        --host "unix://$socket" --live-restore --iptables=false --ip-forward=false --bridge=none \
        </dev/null >>"$folder/log" 2>&1 &
    local dockerd=$!
    for _ in $(seq 600); do
        if ask GET /_ping >/dev/null 2>&1; then return; fi
        kill -0 "$dockerd" 2>/dev/null || break
        sleep 0.05
    done
    echo "docker: the daemon does not answer; the end of its log:" >&2
    tail -n 20 "$folder/log" >&2
    return 1
}

images() {
    local tree
    tree=$(mktemp -d)
    mkdir -p "$tree"/{bin,dev,etc,proc,sys,tmp}
    cp "$(command -v busybox)" "$tree/bin/busybox"
    busybox --list | while read -r applet; do
        [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"
    done
    import outlive-test "$tree"
    rm -rf "${tree:?}"/*
    echo "nothing else" >"$tree/content"
    import outlive-test-bare "$tree"
    rm -rf "$tree"
}

python() {
    local tree package
    tree=$(mktemp -d)
    mkdir -p "$tree"/{dev,etc,proc,sys,tmp,run,root,home,usr/{bin,lib,lib64,sbin}}
    chmod 1777 "$tree/tmp"
    for package in bin lib lib64 sbin; do ln -s "usr/$package" "$tree/$package"; done
    # The files of the packages, as dpkg knows them: a base system without a mirror of packages.
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances passwd python3 python3-venv $(dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p') | grep '^[a-z0-9]' | sort -u |
        while read -r package; do
            cat "/var/lib/dpkg/info/$package.list" "/var/lib/dpkg/info/$package:$(dpkg --print-architecture).list" 2>/dev/null || true
        done | grep -v '^/usr/share/\(doc\|man\|locale\)/' |
        while read -r package; do [ -f "$package" ] || [ -L "$package" ] && printf '.%s\n' "$package" || true; done |
        tar -C / -c --no-recursion -T - | tar -C "$tree" -x --keep-directory-symlink
    printf 'root:x:0:0:root:/root:/bin/bash\n' >"$tree/etc/passwd"
    printf 'root:x:0:\n' >"$tree/etc/group"
    touch "$tree/etc/shadow" "$tree/etc/gshadow" "$tree/etc/login.defs"
    ln -sf dash "$tree/usr/bin/sh" # which dash's installation script would do
    ldconfig -r "$tree"
    import outlive-test-python "$tree"
    rm -rf "$tree"
}

import() { # import NAME TREE
    tar -C "$2" -c . | ask POST "/images/create?fromSrc=-&repo=$1&tag=latest" \
        -H 'Content-Type: application/x-tar' --data-binary @- >/dev/null
}

stop() {
    local id pid mount
    is_alive "$(number "$folder/pid")" || start # containers live on without it, and only it removes them
    for id in $(ask GET '/containers/json?all=1' | grep -o '"Id":"[0-9a-f]*"' | cut -d '"' -f 4); do
        ask DELETE "/containers/$id?force=1&v=1" >/dev/null || true
    done
    for pid in "$folder/pid" "$containerd"; do end "$(number "$pid")"; done
    # The daemon was killed while it made one: its shim is known to nobody any more.
    for pid in $(grep -lsF -- "$folder/exec/containerd/containerd.sock" /proc/[0-9]*/cmdline | cut -d / -f 3); do
        [ "$pid" = "$$" ] || kill -KILL $(cat "/proc/$pid/task/"*/children 2>/dev/null) "$pid" 2>/dev/null || true
    done
    awk -v folder="$folder/" 'index($5, folder) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r mount; do umount -l "$mount"; done
}

number() { cat "$1" 2>/dev/null || true; }

is_alive() { [ -n "$1" ] && [ -e "/proc/$1/exe" ]; } # a zombie has none

end() { # end PID: TERM, then KILL after 10 s
    is_alive "$1" && kill "$1" || return 0
    for _ in $(seq 200); do
        is_alive "$1" || return 0
        sleep 0.05
    done
    kill -KILL "$1" 2>/dev/null || true
}

case "${1:-} ${folder:+folder}" in
"install ") install_packages ;;
"start folder") start ;;
"images folder") images ;;
"python folder") python ;;
"stop folder") stop ;;
*)
    echo "docker.sh install | start FOLDER | images FOLDER | python FOLDER | stop FOLDER" >&2
    exit 64
    ;;
esac

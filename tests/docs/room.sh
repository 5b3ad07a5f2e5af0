#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The room that the commands of a page run in, made by tests/e2e/docs_room.py inside namespaces of mounts and of the network. All files of
# the machine are there, and whatever is written is gone afterwards (overlayfs over a tmpfs); the network is loopback, which has the addresses
# of the page's examples. Then the shell reads commands from standard input.
#
# room.sh DIRECTORY SOURCE BUILD FOLDER [ADDRESS...]: the shell begins in FOLDER; DIRECTORY/told is shared by the room and
# the test outside
set -eu
dir=$1 top=$2 build=$3 folder=$4
shift 4
ip link set lo up
for address; do ip addr add "$address/32" dev lo; done

room=$dir/room root=$dir/room/root
mkdir -p "$room"
mount -t tmpfs -o size=2g,mode=755 room "$room"
# above NAME LOWER PLACE: mounts an overlay of the folder LOWER at PLACE; what is written there is kept in the room, not in LOWER
above() {
	mkdir -p "$room/$1" "$room/$1.work" "$3"
	mount -t overlay overlay -o "lowerdir=$2,upperdir=$room/$1,workdir=$room/$1.work" "$3"
}
above machine / "$root"
above source "$top" "$root$top"
above build "$build" "$root$top/build"
for place in /proc /sys /dev; do mount --rbind "$place" "$root$place"; done
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
for place in /run /tmp; do case $top/ in $place/*) ;; *) mount -t tmpfs -o mode=1777 room "$root$place" ;; esac; done
mkdir -p "$root/run/told" "$root/srv/reader" "$root$folder" "$root/.old"
mount --bind "$dir/told" "$root/run/told"
cd "$root"
pivot_root . .old
umount -l /.old
cd "$folder"
exec bash --noprofile --norc

#!/bin/sh
# Records what the tests and docs/demux.md look at, in a network namespace that is gone afterwards:
#
#   ss.txt          sockets of every kind that `ss -uanpe` lists
#   datagrams.pcap  datagrams to them, as eth0 saw them
#   received.txt    which sockets the kernel gave each datagram to
#
#     sudo scenarios/record.sh scenarios
#
# Needs root, iproute2 and Python 3. The namespace has lo and one end of a veth pair, eth0, with 10.1.0.1/24 and
# fd01::1/64; the datagrams are sent as frames from the other end.
set -eu
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    into=$(cd "$1" && pwd)
    exec unshare --net sh "$here/$(basename "$0")" inside "$here" "$into"
fi
ip link set lo up
ip link add eth0 type veth peer name peer
sysctl -q net.ipv6.conf.peer.disable_ipv6=1
ip link set eth0 addrgenmode eui64 address 02:00:00:00:00:01
ip link set peer up
ip link set eth0 up
ip addr add 10.1.0.1/24 dev eth0
ip addr add fd01::1/64 dev eth0 nodad
ip neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev eth0
ip neigh add fd01::9 lladdr 02:00:00:00:00:09 dev eth0
# The link-local address is tentative for a second or two.
while ip -6 addr show dev eth0 | grep -q tentative || ! ip -6 addr show dev eth0 | grep -q fe80; do
    sleep 0.2
done
exec python3 "$2/record.py" "$3"

"""The small programs that record.py runs inside its namespaces where no ready-made one does the job.

Usage: players.py NAME ARGUMENTS..., see the functions below. Standard library only, but for QUIC, which needs aioquic.
"""

import heapq
import random
import selectors
import socket
import sys
import time


def family(host):
    """The address family that an address in text is of."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def listener(port):
    """A listening TCP socket for both families."""
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)


def tcp_sink(port):
    """Reads each connection to its end, then says how much came, and closes."""
    server = listener(int(port))
    while True:
        peer, _ = server.accept()
        with peer:
            total = 0
            while data := peer.recv(65536):
                total += len(data)
            peer.sendall(b"%d\n" % total)


def tcp_send(host, port, size):
    """Sends `size` bytes, closes its half, and waits for the sink's answer."""
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(random.Random(1).randbytes(int(size)))
        peer.shutdown(socket.SHUT_WR)
        answer = peer.recv(64)
        if answer != b"%d\n" % int(size):
            raise SystemExit(f"the sink has counted {answer!r}, not {size}")
        peer.recv(64)


def tcp_closer(port):
    """Greets each connection and closes it first, so that TIME_WAIT is on this side."""
    server = listener(int(port))
    while True:
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"bye\n")
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(64):
                pass


def tcp_reuse(host, port, source_port, first, pause, times):
    """Connects `times` times from one source port; `first` (client or server) says who closes first."""
    for number in range(int(times)):
        if number:
            time.sleep(float(pause))
        with socket.socket(family(host)) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            peer.bind(("", int(source_port)))
            peer.connect((host, int(port)))
            if first == "server":
                while peer.recv(64):
                    pass
            else:
                peer.sendall(b"hello\n")
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(64):
                    pass


def chat_server(port):
    """Answers each line in upper case."""
    server = listener(int(port))
    while True:
        peer, _ = server.accept()
        with peer:
            while data := peer.recv(4096):
                peer.sendall(data.upper())


def chat(host, port, lines, pause):
    """Sends numbered lines, a pause apart, and waits for the answer to each."""
    with socket.create_connection((host, int(port))) as peer:
        for number in range(int(lines)):
            line = b"line %d\n" % number
            peer.sendall(line)
            if peer.recv(4096) != line.upper():
                raise SystemExit(f"wrong answer to line {number}")
            time.sleep(float(pause))


def udp_echo(port):
    """Sends each datagram back."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", int(port)))
        while True:
            data, peer = server.recvfrom(65535)
            server.sendto(data, peer)


def udp_send(host, port, size, count):
    """Sends datagrams and waits for the echo of each; prints what came of them."""
    with socket.socket(family(host), socket.SOCK_DGRAM) as peer:
        peer.settimeout(1)
        peer.connect((host, int(port)))
        for number in range(int(count)):
            data = bytes([number]) * int(size)
            try:
                peer.send(data)
                print("echo" if peer.recv(65535) == data else "another answer")
            except ConnectionRefusedError:
                print("refused")
            except TimeoutError:
                print("nothing")


def impair(left, right, loss, reorder, delay_ms, seed):
    """A cable between two devices that loses, delays and overtakes IP packets, as netem does."""
    chance = random.Random(int(seed))
    loss, reorder, delay = float(loss), float(reorder), float(delay_ms) / 1000
    select = selectors.DefaultSelector()
    ends = {}
    for device in (left, right):
        ends[device] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        ends[device].bind((device, 0))
    select.register(ends[left], selectors.EVENT_READ, ends[right])
    select.register(ends[right], selectors.EVENT_READ, ends[left])
    print("ready", flush=True)
    waiting, number = [], 0
    while True:
        timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in select.select(timeout):
            frame, (_, _, kind, _, _) = key.fileobj.recvfrom(65535)
            if kind == socket.PACKET_OUTGOING:
                continue
            due = time.monotonic()
            if frame[12:14] in (b"\x08\x00", b"\x86\xdd"):
                if chance.random() < loss:
                    continue
                # netem's way: a packet that is sent at once overtakes those that wait.
                if chance.random() >= reorder:
                    due += delay
            number += 1
            heapq.heappush(waiting, (due, number, key.data, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, out, frame = heapq.heappop(waiting)
            out.send(frame)


def quic_server(port, certificate, key):
    """A QUIC server that sends 4,000 bytes for each stream that it was asked on."""
    import asyncio

    from aioquic.asyncio import serve
    from aioquic.quic.configuration import QuicConfiguration

    def answer(reader, writer):
        async def talk():
            await reader.read()
            writer.write(random.Random(2).randbytes(4000))
            writer.write_eof()
        asyncio.get_running_loop().create_task(talk())

    async def main():
        configuration = QuicConfiguration(is_client=False, alpn_protocols=["hq-interop"])
        configuration.load_cert_chain(certificate, key)
        await serve("::", int(port), configuration=configuration, stream_handler=answer)
        await asyncio.Event().wait()

    asyncio.run(main())


def quic_get(host, port, certificate, name):
    """Opens a QUIC connection, asks on two streams, and closes."""
    import asyncio

    from aioquic.asyncio import connect
    from aioquic.quic.configuration import QuicConfiguration

    async def main():
        configuration = QuicConfiguration(is_client=True, alpn_protocols=["hq-interop"], server_name=name)
        configuration.load_verify_locations(certificate)
        async with connect(host, int(port), configuration=configuration) as client:
            for _ in range(2):
                reader, writer = await client.create_stream()
                writer.write(b"GET /\r\n")
                writer.write_eof()
                if len(await reader.read()) != 4000:
                    raise SystemExit("a stream came back short")

    asyncio.run(main())


PROGRAMS = (tcp_sink, tcp_send, tcp_closer, tcp_reuse, chat_server, chat, udp_echo, udp_send, impair, quic_server,
            quic_get)

if __name__ == "__main__":
    table = {program.__name__.replace("_", "-"): program for program in PROGRAMS}
    if len(sys.argv) < 2 or sys.argv[1] not in table:
        raise SystemExit(f"usage: players.py {{{','.join(table)}}} ARGUMENTS...")
    table[sys.argv[1]](*sys.argv[2:])

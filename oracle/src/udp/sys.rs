//! The few system calls that take what no typed wrapper takes: any address on any socket, any option.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// The last system error if `result` is negative.
fn check(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        Errno::from_raw_os_error(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    })
}

fn length(bytes: &[u8]) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes.len()).unwrap_or(0)
}

/// `struct sockaddr_in` or `sockaddr_in6`, by the form of `addr`.
pub(super) fn address(addr: IpAddr, port: u16, scope: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(28);
    match addr {
        IpAddr::V4(v4) => {
            out.extend((libc::AF_INET as u16).to_ne_bytes());
            out.extend(port.to_be_bytes());
            out.extend(v4.octets());
            out.extend([0; 8]);
        }
        IpAddr::V6(v6) => {
            out.extend((libc::AF_INET6 as u16).to_ne_bytes());
            out.extend(port.to_be_bytes());
            out.extend([0; 4]);
            out.extend(v6.octets());
            out.extend(scope.to_ne_bytes());
        }
    }
    out
}

/// `struct sockaddr_storage` with the address in it.
pub(super) fn storage(addr: IpAddr) -> Vec<u8> {
    let mut out = address(addr, 0, 0);
    out.resize(128, 0);
    out
}

fn read_address(bytes: &[u8]) -> Option<(IpAddr, u16)> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let addr = match family {
        libc::AF_INET => IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some((addr, port))
}

/// `bind` with these bytes.
pub(super) fn bind(fd: BorrowedFd<'_>, addr: &[u8]) -> Result<(), Errno> {
    // SAFETY: pointer and length are those of `addr`, which the kernel only reads.
    check(unsafe { libc::bind(fd.as_raw_fd(), addr.as_ptr().cast(), length(addr)) } as isize)
        .map(drop)
}

/// `connect` with these bytes.
pub(super) fn connect(fd: BorrowedFd<'_>, addr: &[u8]) -> Result<(), Errno> {
    // SAFETY: as for `bind`.
    check(unsafe { libc::connect(fd.as_raw_fd(), addr.as_ptr().cast(), length(addr)) } as isize)
        .map(drop)
}

/// `sendto` without waiting.
pub(super) fn send_to(fd: BorrowedFd<'_>, data: &[u8], addr: &[u8]) -> Result<(), Errno> {
    // SAFETY: both pointers go with their own lengths and are only read.
    check(unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            data.as_ptr().cast(),
            data.len(),
            libc::MSG_DONTWAIT,
            addr.as_ptr().cast(),
            length(addr),
        )
    })
    .map(drop)
}

/// `setsockopt` with these bytes.
pub(super) fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: as for `bind`.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), length(value))
    } as isize)
    .map(drop)
}

/// `setsockopt` with an `int`.
pub(super) fn set_int(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    set(fd, level, name, &value.to_ne_bytes())
}

/// `recv` without waiting.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most the buffer's length.
    check(unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    })
}

/// Own end (`false`) or peer (`true`).
pub(super) fn name(fd: BorrowedFd<'_>, peer: bool) -> Option<(IpAddr, u16)> {
    let mut bytes = [0_u8; 128];
    let mut length: libc::socklen_t = 128;
    let call = if peer { libc::getpeername } else { libc::getsockname };
    // SAFETY: the kernel writes at most the 128 bytes that `length` announces, which is more than
    // any of its addresses, and `u8` has no invalid values.
    let result = unsafe { call(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), &raw mut length) };
    check(result as isize).ok()?;
    read_address(bytes.get(..length as usize)?)
}

/// The socket's pending error, which this clears.
pub(super) fn take_error(fd: BorrowedFd<'_>) -> Option<Errno> {
    rustix::net::sockopt::socket_error(fd).ok()?.err()
}

/// The errno of the first record of the error queue, which this removes.
pub(super) fn take_record(fd: BorrowedFd<'_>) -> Option<Errno> {
    let mut control = [0_u64; 64];
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers with lengths of zero.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points to `control` with its length and to nothing else.
    check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) }).ok()?;
    // Control messages are a length, a level and a type of 8, 4 and 4 bytes; the value of this kind
    // begins with the errno.
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut at = 0;
    while at + 20 <= header.msg_controllen as usize {
        let word = |n: usize| -> Option<[u8; 4]> { bytes.get(at + n..)?.first_chunk().copied() };
        let length = u32::from_ne_bytes(word(0)?) as usize;
        let kind = (i32::from_ne_bytes(word(8)?), i32::from_ne_bytes(word(12)?));
        if matches!(
            kind,
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        ) {
            return Some(Errno::from_raw_os_error(i32::from_ne_bytes(word(16)?)));
        }
        at += length.max(16).next_multiple_of(8);
    }
    None
}

/// An errno's name.
pub(super) fn errno_name(errno: Errno) -> String {
    let known = [
        (Errno::ACCESS, "EACCES"),
        (Errno::ADDRINUSE, "EADDRINUSE"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::BADF, "EBADF"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::DESTADDRREQ, "EDESTADDRREQ"),
        (Errno::HOSTDOWN, "EHOSTDOWN"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::INVAL, "EINVAL"),
        (Errno::ISCONN, "EISCONN"),
        (Errno::MSGSIZE, "EMSGSIZE"),
        (Errno::NETUNREACH, "ENETUNREACH"),
        (Errno::NOBUFS, "ENOBUFS"),
        (Errno::NODEV, "ENODEV"),
        (Errno::NONET, "ENONET"),
        (Errno::NOPROTOOPT, "ENOPROTOOPT"),
        (Errno::NOTCONN, "ENOTCONN"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::PERM, "EPERM"),
        (Errno::PROTO, "EPROTO"),
    ];
    let found = known.iter().find(|(known, _)| *known == errno);
    found.map_or_else(|| format!("errno {}", errno.raw_os_error()), |(_, name)| (*name).to_owned())
}

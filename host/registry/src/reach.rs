//! Where a registry may send a request on to. It chooses the address, and must not have the host ask what only the host
//! can reach: other programs of its machine, its cluster's network, the metadata of its cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// From where an address can be reached, the widest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// From everywhere.
    Public,
    /// From an organisation's own networks.
    Private,
    /// From the same network segment. Multicast and reserved addresses, which belong to no single machine, count as
    /// such.
    LinkLocal,
    /// From the same machine.
    Loopback,
}

impl Reach {
    /// Returns from where an address can be reached.
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, ..] = address.octets();
        match (a, b) {
            // What is sent to 0.0.0.0 arrives at this machine.
            (0 | 127, _) => Self::Loopback,
            (169, 254) | (224.., _) => Self::LinkLocal,
            // Beside the private networks those of carriers, and those for benchmarks.
            (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) | (198, 18 | 19) => Self::Private,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Loopback,
            // An address of IPv4 behind a translator.
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                let [.., a, b, c, d] = address.octets();
                Self::of_v4(Ipv4Addr::new(a, b, c, d))
            }
            [0xfe80..=0xfebf | 0xff00.., ..] => Self::LinkLocal,
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Self::Private,
            _ => Self::Public,
        }
    }

    /// Returns whether a registry at such an address may send a request on to an address of the reach `to`.
    pub(super) fn may_send_to(self, to: Self) -> bool {
        to == Self::Public || to == self || (self, to) == (Self::Loopback, Self::Private)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Reach {
        Reach::of(address.parse().unwrap())
    }

    #[test]
    fn each_special_address_has_its_reach_in_whatever_form_it_is_written() {
        for (reach, addresses) in [
            (Reach::Loopback, &["127.0.0.1", "127.8.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"][..]),
            (Reach::LinkLocal, &["169.254.169.254", "fe80::1", "224.0.0.1", "255.255.255.255", "ff02::1"]),
            (Reach::LinkLocal, &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]),
            (Reach::Private, &["10.0.0.1", "172.16.0.1", "172.31.9.9", "192.168.1.1", "100.64.0.1", "fd00::1"]),
            (Reach::Private, &["::ffff:10.0.0.1", "64:ff9b::a00:1"]),
            (Reach::Public, &["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808"]),
        ] {
            for address in addresses {
                assert_eq!(of(address), reach, "{address}");
            }
        }
    }

    #[test]
    fn a_registry_sends_no_further_in_than_where_it_is_itself() {
        use Reach::*;
        let allowed = |from: Reach| [Public, Private, LinkLocal, Loopback].map(|to| from.may_send_to(to));
        assert_eq!(allowed(Public), [true, false, false, false]);
        assert_eq!(allowed(Private), [true, true, false, false]);
        assert_eq!(allowed(LinkLocal), [true, false, true, false]);
        assert_eq!(allowed(Loopback), [true, true, false, true]);
    }
}

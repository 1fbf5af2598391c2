use std::net::{TcpListener, TcpStream};

use super::*;

const TEXT: &str = "Tcp: RtoMin MaxConn OutSegs\nTcp: 200 -1 17\n\
                    TcpExt: DelayedACKs OutSegs\nTcpExt: 5 6\n";

fn parsed(text: &str) -> Counters {
    let mut values = BTreeMap::new();
    parse(text, &mut values).unwrap();
    Counters { values }
}

#[test]
fn names_are_group_and_column() {
    let counters = parsed(TEXT);
    assert_eq!(counters.get("TcpOutSegs"), Some(17));
    assert_eq!(counters.get("TcpExtOutSegs"), Some(6));
    assert_eq!(counters.get("TcpExtDelayedACKs"), Some(5));
    assert_eq!(counters.get("TcpMaxConn"), None, "-1 is no count");
    assert_eq!(counters.get("OutSegs"), None);
}

#[test]
fn picking_gives_what_parsing_gives() {
    let names = ["TcpExtOutSegs", "TcpMaxConn", "TcpOutSegs", "Absent", "TcpExtDelayedACKs"];
    let mut values = [None; 5];
    pick(TEXT, &names, &mut values).unwrap();
    assert_eq!(values, names.map(|name| parsed(TEXT).get(name)));
    assert_eq!(values, [Some(6), None, Some(17), None, Some(5)]);
}

#[test]
fn a_torn_file_is_an_error() {
    for text in ["Tcp: A B\n", "Tcp: A\nUdp: 1\n", "nonsense\nmore\n"] {
        assert!(parse(text, &mut BTreeMap::new()).is_err(), "{text:?}");
        assert!(pick(text, &["TcpA"], &mut [None]).is_err(), "{text:?}");
    }
}

#[test]
fn since_is_signed_and_silent_about_what_one_side_lacks() {
    let before: Counters =
        [("same", 3), ("up", 1), ("down", 9), ("gone", 1), ("wrapped", u64::MAX)].into_iter().collect();
    let after: Counters = [("same", 3), ("up", 4), ("down", 7), ("new", 1), ("wrapped", 1)].into_iter().collect();
    let steps = after.since(&before);
    let expected = [("down", -2), ("up", 3), ("wrapped", 2)];
    assert_eq!(steps, expected.map(|(name, step)| (name.to_owned(), step)).into());
}

#[test]
fn a_connection_moves_the_live_counters_in_both_readings() {
    let names = ["TcpActiveOpens", "TcpExtTCPPureAcks", "TcpExtNoSuchCounter"];
    let (before, quick_before) = (Counters::read().unwrap(), read_named(&names).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (after, quick_after) = (Counters::read().unwrap(), read_named(&names).unwrap());
    assert!(after.since(&before)["TcpActiveOpens"] >= 1);
    assert!(quick_after[0].unwrap() > quick_before[0].unwrap());
    assert!(quick_after[1].is_some());
    assert_eq!(quick_after[2], None);
}

#[test]
fn sysctls_are_listed_by_the_name_that_reads_them() {
    let listed = tcp_sysctls().unwrap();
    assert!(listed.len() > 20, "{}", listed.len());
    assert!(!listed.contains_key("net.ipv4.tcp_fastopen_key"));
    let sack = &listed["net.ipv4.tcp_sack"];
    assert_eq!(*sack, sysctl("net.ipv4.tcp_sack").unwrap());
    assert!(!sack.ends_with('\n'));
}

#[test]
fn sysctl_names_stay_below_proc_sys() {
    assert_eq!(
        sysctl_path("net.ipv4.conf.eth0/1.forwarding").unwrap(),
        PathBuf::from("/proc/sys/net/ipv4/conf/eth0.1/forwarding")
    );
    for name in ["", ".net", "net..ipv4", "//.//.etc.passwd"] {
        assert_eq!(sysctl_path(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
    }
}

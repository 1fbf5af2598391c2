//! Help that teaches by example.

use super::{Status, Trouble, output};

/// What help is wanted about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Topic {
    Program,
    Verify,
    Compare,
    WhatIf,
    Try,
    Sweep,
    Explain,
    List,
    Kernel,
    Notation,
}

/// Prints the help.
pub(super) fn print(topic: Topic) -> Result<Status, Trouble> {
    output::print(match topic {
        Topic::Program => PROGRAM,
        Topic::Verify => VERIFY,
        Topic::Compare => COMPARE,
        Topic::WhatIf => WHAT_IF,
        Topic::Try => TRY,
        Topic::Sweep => SWEEP,
        Topic::Explain => EXPLAIN,
        Topic::List => LIST,
        Topic::Kernel => KERNEL,
        Topic::Notation => NOTATION,
    })
}

const PROGRAM: &str = "\
smallwrites: what this kernel really does with small TCP writes

  smallwrites                               check every claim on this kernel
  smallwrites verify cork                   the claims with \"cork\" in their name
  smallwrites try 'C: W10 W10 R20 / S: R20 W20'
                                            play one write pattern: does it stall, why, and which fix ends it
  smallwrites sweep 'C: W{1..3000} W10 R20 / S: R{} W20'
                                            at which sizes the verdict changes
  smallwrites explain bare-ack-releases-the-body
                                            one claim: what the kernel does, and one request drawn in time
  smallwrites whatif --sysctl net.ipv4.tcp_pingpong_thresh=3
                                            which claims a setting would change
  smallwrites verify --save old.json        write a baseline; later: verify --against old.json
  smallwrites compare old.json new.json     what changed between two runs, two kernels
  smallwrites list                          the claims and what is expected of each
  smallwrites kernel                        the facts of this kernel that matter here
  smallwrites help verify|whatif|compare|try|sweep|explain|list|kernel|notation

No root needed: everything runs in private network namespaces, and nothing of the host is changed.

exit status
  0  all as expected
  1  a claim failed, or a verdict or a count differs from the baseline
  2  the arguments or a file cannot be used
  3  this machine cannot show it
";

const VERIFY: &str = "\
smallwrites verify [FILTER …] [options]: checks claims on the running kernel, under the host's net.ipv4.tcp_* settings

  smallwrites verify                        all of them
  smallwrites verify cork msg-more          those whose name contains either word
  smallwrites verify --defaults             under the kernel's own defaults
  smallwrites verify --sysctl net.ipv4.tcp_autocorking=0
                                            under the host's settings but for this one
  smallwrites verify --save baseline.json   write what it came to, for later
  smallwrites verify --against baseline.json
                                            what changed since; status 1 where a verdict or a count did
  smallwrites verify --format html --out report.html
  smallwrites verify --kselftest            KTAP, and the exit codes of the kernel's selftests: 0, 1, 4

  --format FORMAT       text        for a person (unless said)
                        json        everything, the raw samples too; what --save writes
                        jsonl       the same, a line for each claim as it ends
                        markdown    for a job's page
                        html        a page with pictures, in one file
                        canonical   only what is the same in every run on a kernel
                        ktap        the kernel's Test Anything Protocol
                        junit       JUnit XML
                        github      annotations on a run of GitHub Actions
  --out FILE            write the report there
  --sysctl NAME=VALUE   in the labs, never on the host; repeatable
  --defaults            the kernel's defaults instead of the host's settings
  --save FILE           write a baseline too
  --against FILE        print what changed since that baseline, in place of the report
                        (text, json, markdown, html or github)
  --times PERCENT       status 1 also where a median became slower by more, and by more than its spread
  --require-all         status 3 where a claim had to be ignored
  --jobs N              claims checked at once: 1 on a machine too slow for more
  --kselftest           end with 0 passed, 1 failed, 4 skipped
  --shared              use the shared loopback even where namespaces can be had
";

const COMPARE: &str = "\
smallwrites compare OLD NEW [NEW …] [options]: what changed between runs that verify --save wrote

  smallwrites compare 6.1.json 6.12.json
  smallwrites compare monday.json today.json --times 25
  smallwrites compare 6.1.json 6.12.json 7.0.json --format html --out kernels.html
                                            side by side, each against the first

Verdict flips come first, then changed counts, then shifted times with their spread, then settings. Verdicts and
counts are the same in every run on a kernel: status 1 where one changed. Times alone are only reported.

  --times PERCENT       status 1 also where a median became slower by more, and by more than its spread
  --format text|json|markdown|html|github
  --out FILE            write it there
";

const WHAT_IF: &str = "\
smallwrites whatif --sysctl NAME=VALUE … [FILTER …] [options]: which claims a setting would change

  smallwrites whatif --sysctl net.ipv4.tcp_pingpong_thresh=3
  smallwrites whatif --sysctl net.ipv4.tcp_autocorking=0 cork
                                            only the claims with \"cork\" in their name
  smallwrites whatif --defaults --sysctl net.ipv4.tcp_timestamps=0 --format html --out timestamps.html

Checks the claims twice side by side, with the settings and without, and prints what differs as compare does.
The host's own settings stay as they are. Status 1 where a verdict or a count differs.

  --sysctl NAME=VALUE   in the labs of one side; repeatable
  --defaults            the kernel's defaults on both sides instead of the host's settings
  --times PERCENT       status 1 also where a median became slower by more, and by more than its spread
  --format text|json|markdown|html|github
  --out FILE            write it there
";

const TRY: &str = "\
smallwrites try EXCHANGE [options]: plays one write pattern and judges it, with and without each fix

  smallwrites try 'C: W10 W10 R20 / S: R20 W20'
      the client writes 10 and 10 bytes and reads 20; the server reads 20 and writes 20
  smallwrites try 'C: W75 R83 / S: R75 W79 W4' --requests 50
  smallwrites try 'C: W75 R80 / S: [cork] R75 W80'
      a cork set at accept and forgotten
  smallwrites try 'C: W10 W10 R20 / S: R20 W20' --sysctl net.ipv4.tcp_pingpong_thresh=3

  -n, --requests N                          requests, one after another (10)
  --fresh                                   a connection of its own for each
  --order ordered|turns|free                one thread, two that take turns, two that run free (ordered)
  --mss N                                   TCP_MAXSEG on both ends
  -6, --ipv6                                over IPv6
  --sysctl NAME=VALUE                       set in the lab, never on the host; repeatable
  --quickack-route                          quickack 1 on the route
  --shared                                  on the shared loopback
  --predict                                 the model's prediction beside what was seen
  --predict-only                            the model's prediction alone; no socket
  --format text|json

smallwrites help notation shows every step.
";

const SWEEP: &str = "\
smallwrites sweep EXCHANGE [options]: where the verdict changes as one size grows

One size is written as a range, and R{} reads whatever the other side wrote. The model tells the verdict at every size; the
sizes beside each change are then played, and the kernel must agree.

  smallwrites sweep 'C: W{1..3000} W10 R20 / S: R{} W20'
  smallwrites sweep 'C: W{1..3000} W10 R20 / S: R{} W20' --mss 1000
  smallwrites sweep 'C: W200 W{1..4000} R20 / S: R{} W20' --mss 1448 --requests 6

  -n, --requests N                          requests at each size (10)
  --mss N, --ipv6, --sysctl NAME=VALUE, --quickack-route, --shared
                                            as in try
  --format text|json

Exit status 1 where the kernel and the model part.
";

const EXPLAIN: &str = "\
smallwrites explain ID [options]: one claim, what the kernel does about it, and one request drawn in time

  smallwrites explain bare-ack-releases-the-body
  smallwrites explain gap-follows-the-bare-ack --pcap gap.pcapng
      the capture too, with a comment on each segment that tells the story

  --pcap FILE                               write what was captured, for Wireshark and tshark
  --shared                                  on the shared loopback, without a capture
";

const LIST: &str = "\
smallwrites list [FILTER …]: the claims and what is expected of each

  smallwrites list
  smallwrites list quickack --format json
";

const KERNEL: &str = "\
smallwrites kernel: the facts of this kernel that matter to small writes, probed

  smallwrites kernel
  smallwrites kernel --format json
";

const NOTATION: &str = "\
An exchange is two scripts, read from the left by each side, once per request:

  C: W10 W10 R20 / S: R20 W20

  W10             one send of 10 bytes
  M10             with MSG_MORE
  E10             with MSG_EOR
  V10+10          one sendmsg of two buffers
  Z10  Z10+10     the same with MSG_ZEROCOPY
  F1000           one sendfile of 1000 bytes; F60+40 asks for 40 bytes more than the file has
  R20             read exactly 20 bytes
  P5              pause 5 ms; P250us, P2s
  nodelay  nodelay=0  cork  uncork  quickack  quickack=0
                  set the option there and then
  shutdown        shut down the sending direction
  W30x10          ten times; (W1 P5)x20 repeats a group

Options set once stand before the first step:

  [nodelay mss=1000]      on the connected or accepted socket (mss before the handshake)
  bound[cork]             before connect or listen
  listening[quickack=0]   on the listening socket

A relay between the two forwards whatever comes, C[…] and S[…] being its options towards each:

  C: W75 R83 / relay: C[nodelay] / S: R75 W79 P1 W4
";

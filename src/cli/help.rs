//! Help that teaches by example.

use super::{Status, Trouble, output};

/// What help is wanted about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Topic {
    Program,
    Verify,
    Try,
    Sweep,
    List,
    Kernel,
    Notation,
}

/// Prints the help.
pub(super) fn print(topic: Topic) -> Result<Status, Trouble> {
    output::print(match topic {
        Topic::Program => PROGRAM,
        Topic::Verify => VERIFY,
        Topic::Try => TRY,
        Topic::Sweep => SWEEP,
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
  smallwrites list                          the claims and what is expected of each
  smallwrites kernel                        the facts of this kernel that matter here
  smallwrites help verify|try|sweep|list|kernel|notation

No root needed: everything runs in private network namespaces, and nothing of the host is changed.

exit status
  0  all as expected
  1  a claim failed
  2  the arguments or a file cannot be used
  3  this machine cannot show it
";

const VERIFY: &str = "\
smallwrites verify [FILTER …] [options]: checks claims on the running kernel

  smallwrites verify                        all of them
  smallwrites verify cork msg-more          those whose name contains either word
  smallwrites verify --format json --out report.json
  smallwrites verify --format canonical     only what is the same in every run on a kernel

  --format text|json|markdown|canonical     text unless said
  --out FILE                                write the report there
  --require-all                             status 3 where a claim had to be ignored
  --shared                                  use the shared loopback even where namespaces can be had
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

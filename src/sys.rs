//! Every `unsafe` block and every libc or netlink detail of the crate.

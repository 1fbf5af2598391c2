//! Snapshots at the top of the project.

/// Snapshots lie in `snapshots/` under the name that the test gives, without the test's path or expression.
///
/// The settings belong to the thread that asserts: bind them there.
pub(crate) fn snapshots() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

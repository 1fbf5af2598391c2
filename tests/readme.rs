//! The README's table of claims is the catalogue, and its words are still true.
//!
//! `README_UPDATE=1 cargo test --test readme` writes the table anew.

use smallwrites::claims;
use smallwrites::report::catalogue;
use std::fs;
use std::path::PathBuf;

const BEGIN: &str = "<!-- claims: written by the program -->\n";
const END: &str = "<!-- end of claims -->";

fn readme() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("README.md")
}

#[test]
fn the_table_of_claims_is_the_catalogue() {
    let text = fs::read_to_string(readme()).unwrap();
    let from = text.find(BEGIN).expect("the table's beginning") + BEGIN.len();
    let to = text.find(END).expect("the table's end");
    let table = format!("\n{}\n", catalogue(&claims::catalogue()));
    if std::env::var_os("README_UPDATE").is_some() {
        fs::write(readme(), format!("{}{table}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert!(text[from..to] == table, "the table is old; write it anew with README_UPDATE=1 cargo test --test readme");
}

#[test]
fn every_dependency_is_named_with_its_reason() {
    let manifest = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let text = fs::read_to_string(readme()).unwrap();
    let mut named = 0;
    let mut among = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            among = line.contains("dependencies");
        } else if let (true, Some((name, _))) = (among, line.split_once(" = ")) {
            assert!(text.contains(&format!("| `{name}`")), "{name} has no row in the README's table");
            named += 1;
        }
    }
    assert!(named > 10, "the manifest was not understood");
}

#[test]
fn the_numbers_of_claims_and_documents_agree() {
    let text = fs::read_to_string(readme()).unwrap();
    let count = claims::catalogue().len();
    assert!(text.contains(&format!("{count} claims")), "the README does not say {count} claims");
}

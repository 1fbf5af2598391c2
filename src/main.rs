//! The command line.
use smallwrites::{claims::*, lab};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = lab::enter();
    let setting = Setting::probe()?;
    let claims: Vec<_> =
        catalogue().into_iter().filter(|c| std::env::args().nth(1).is_none_or(|f| c.id.contains(&f))).collect();
    for o in run(&claims, &setting, |_| {}) {
        println!("{} {} {:?}", o.claim.id, o.finding.word(), o.took);
        match &o.finding {
            Finding::Passed(e) => println!("    {}\n    {}", e.canonical, e.measured),
            Finding::Failed(f) => println!("{f}"),
            Finding::Ignored(m) => println!("{m:?}"),
        }
        let c = control(o.claim, &setting);
        println!(
            "  control {} : {}",
            c.finding.word(),
            match &c.finding {
                Finding::Failed(f) => f.saw.clone(),
                _ => "!!!!!!!!".into(),
            }
        );
    }
    Ok(())
}

//! The table as a picture: a panel per objective, scenarios by rules, regret upwards, goals as lines.
//!
//! Regret is drawn on a scale that is straight below 0.1 and logarithmic above, because rules of the field reach 10
//! where Pointsman differs in hundredths. Colours follow the reader's light or dark page.

use std::fmt::{self, Write};

use crate::{
    goals,
    request::Aim,
    rules::Kind,
    table::{Cell, Plan, mean_and_worst},
};

const LEFT: f64 = 64.0;
const PANEL: f64 = 230.0;
const GAP: f64 = 64.0;
const TOP: f64 = 96.0;
const STEP: f64 = 74.0;
/// Regret at the upper edge, and where the scale turns logarithmic.
const MOST: f64 = 10.0;
const STRAIGHT: f64 = 0.1;
const TICKS: [f64; 9] = [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

const STYLE: &str = "\
<style>
svg{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;background:#ffffff;color:#1f2328;fill:currentColor}
.title{font-size:17px;font-weight:600}.panel{font-size:14px;font-weight:600}.soft{fill:#59636e}.mean{font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1}.goal{stroke:#1a7f37;stroke-width:1.5;stroke-dasharray:5 4}.band{fill:#f6f8fa}
.own{fill:#0969da;stroke:#ffffff;stroke-width:1}.other{fill-opacity:0;stroke-width:1.6}
.r0{stroke:#bc4c00}.r1{stroke:#8250df}.r2{stroke:#cf222e}.r3{stroke:#1b7c83}.r4{stroke:#9a6700}.r5{stroke:#57606a}
@media (prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}
.goal{stroke:#3fb950}.band{fill:#151b23}.own{fill:#58a6ff;stroke:#0d1117}
.r0{stroke:#f0883e}.r1{stroke:#bc8cff}.r2{stroke:#ff7b72}.r3{stroke:#39c5cf}.r4{stroke:#d29922}.r5{stroke:#9198a1}}
</style>
";

/// The picture.
///
/// # Errors
/// None but those of `out`.
pub fn write(plan: &Plan, cells: &[Cell], out: &mut impl Write) -> fmt::Result {
    let aims: Vec<Aim> = plan.aims.iter().copied().filter(|aim| cells.iter().any(|cell| cell.aim == *aim)).collect();
    let width = LEFT + STEP * (plan.scenarios.len() + 1) as f64 + 24.0;
    let height = TOP + (PANEL + GAP) * aims.len() as f64;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="Normalised regret by objective, scenario and rule">"#
    )?;
    out.write_str(STYLE)?;
    writeln!(
        out,
        r#"<text class="title" x="16" y="28">Normalised regret: 0 is the clairvoyant oracle, 1 is uniform random</text>"#
    )?;
    legend(plan, out)?;
    for (position, aim) in aims.into_iter().enumerate() {
        let top = TOP + (PANEL + GAP) * position as f64;
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.aim == aim).collect();
        panel(aim, &of, width, top, out)?;
    }
    writeln!(out, "</svg>")
}

fn legend(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    let mut x = 22.0;
    for (position, rule) in plan.rules.iter().enumerate() {
        mark(*rule, position, (x, 50.0), rule.name(), out)?;
        writeln!(out, r#"<text x="{:.0}" y="54">{}</text>"#, x + 10.0, rule.name())?;
        x += 34.0 + 7.0 * rule.name().chars().count() as f64;
    }
    writeln!(
        out,
        r#"<path class="goal" d="M{:.0} 50h26"/><text x="{:.0}" y="54">goal: mean, worst</text>"#,
        x - 6.0,
        x + 26.0
    )
}

fn panel(aim: Aim, cells: &[&Cell], width: f64, top: f64, out: &mut impl Write) -> fmt::Result {
    let (right, bottom) = (width - 16.0, top + PANEL);
    writeln!(out, r#"<text class="panel" x="16" y="{:.0}">{}</text>"#, top - 12.0, aim.name())?;
    for column in (0..cells.len()).step_by(2) {
        let x = LEFT + STEP * column as f64;
        writeln!(out, r#"<rect class="band" x="{x:.0}" y="{top:.0}" width="{STEP}" height="{PANEL}"/>"#)?;
    }
    for tick in TICKS {
        let y = bottom - height_of(tick);
        writeln!(out, r#"<path class="grid" d="M{LEFT} {y:.1}H{right:.0}"/>"#)?;
        writeln!(
            out,
            r#"<text class="soft" x="{:.0}" y="{:.1}" text-anchor="end">{tick}</text>"#,
            LEFT - 8.0,
            y + 4.0
        )?;
    }
    let mean = LEFT + STEP * cells.len() as f64;
    if let Some(goal) = goals::regret(aim) {
        let (worst_at, mean_at) = (bottom - height_of(goal.worst), bottom - height_of(goal.mean));
        writeln!(out, r#"<path class="goal" d="M{LEFT} {worst_at:.1}H{mean:.0}M{mean:.0} {mean_at:.1}h{STEP}"/>"#)?;
    }
    for (column, cell) in cells.iter().enumerate() {
        let x = LEFT + STEP * (column as f64 + 0.5);
        let name = cell.scenario.name();
        writeln!(out, r#"<text x="{x:.0}" y="{:.0}" text-anchor="middle">{name}</text>"#, bottom + 18.0)?;
        let regrets = (2..cell.entries.len()).map(|position| (cell.entries[position].kind, cell.regret(position)));
        marks(name, &regrets.collect::<Vec<_>>(), (x, bottom), out)?;
    }
    let x = mean + 0.5 * STEP;
    writeln!(out, r#"<text class="mean" x="{x:.0}" y="{:.0}" text-anchor="middle">mean</text>"#, bottom + 18.0)?;
    let kinds = cells.first().map_or(&[][..], |cell| &cell.entries[2..]).iter().map(|entry| entry.kind);
    let over = kinds.filter_map(|kind| Some((kind, mean_and_worst(cells.iter().copied(), kind)?.0)));
    marks("mean", &over.collect::<Vec<_>>(), (x, bottom), out)
}

/// The rules of a column. Pointsman, the first, is drawn last, so that nothing covers it.
fn marks(column: &str, regrets: &[(Kind, f64)], (middle, bottom): (f64, f64), out: &mut impl Write) -> fmt::Result {
    for (position, (kind, regret)) in regrets.iter().enumerate().rev() {
        let x = middle + (position as f64 - 0.5 * (regrets.len() as f64 - 1.0)) * 8.5;
        let title = format!("{column}, {}: {regret:.3}", kind.name());
        mark(*kind, position, (x, bottom - height_of(*regret)), &title, out)?;
    }
    Ok(())
}

fn mark(kind: Kind, position: usize, (x, y): (f64, f64), title: &str, out: &mut impl Write) -> fmt::Result {
    let title = format!("<title>{title}</title>");
    if kind == Kind::Pointsman {
        return writeln!(out, r#"<circle class="own" cx="{x:.1}" cy="{y:.1}" r="5">{title}</circle>"#);
    }
    let shape = match position % 3 {
        0 => "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        1 => "m-3.6 -3.6h7.2v7.2h-7.2z",
        _ => "m0 -4.5l4.3 7.6h-8.6z",
    };
    let colour = position.saturating_sub(1) % 6;
    writeln!(out, r#"<path class="other r{colour}" d="M{x:.1} {y:.1}{shape}">{title}</path>"#)
}

/// Pixels above the lower edge.
fn height_of(regret: f64) -> f64 {
    let scaled = |regret: f64| {
        if regret <= STRAIGHT { regret / STRAIGHT } else { 1.0 + libm::log(regret / STRAIGHT) }
    };
    PANEL * (scaled(regret.clamp(0.0, MOST)) / scaled(MOST))
}

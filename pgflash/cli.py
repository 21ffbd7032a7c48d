"""The command line: arguments, output, exit status. What the commands do is elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from pgflash import __version__
from pgflash.agent.command import agent_command
from pgflash.cluster.cli import app as cluster
from pgflash.connection import reason
from pgflash.doctor.command import doctor_command
from pgflash.doctor.drives import drives_command
from pgflash.errors import (
    EXIT_BROKE_OFF,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_SLOWER,
    ArgumentError,
    BrokeOff,
    Interrupted,
    MachineError,
    PgflashError,
    ScenarioError,
    StudyError,
)
from pgflash.lab.work import default_base
from pgflash.monitoring.cli import app as monitoring
from pgflash.pilot import scenario as scenarios
from pgflash.pilot.progress import JsonReporter, Reporter, TerminalReporter
from pgflash.pilot.store import RUNS, Study, Writer, open_study
from pgflash.place.cli import place, tier
from pgflash.shown import cell, console, json_text, visible
from pgflash.snapshots import commands as snapshot_commands
from pgflash.system import raise_on_signals
from pgflash.top.cli import top_command
from pgflash.units import ENDURANCE_FORMS, PRICE_FORMS, Endurance, OperationPrice, counted, parse_endurance, parse_operation_price
from pgflash.usage import Commands

app = Commands(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="The command line tool of pg_flashcache.")
pilot = Commands(no_args_is_help=True, help="The pilot study: will flash help, how much of it, and used how?")
app.add_typer(pilot, name="pilot")
snapshot_commands.register(app)
app.add_typer(monitoring, name="monitoring")
app.command("top")(top_command)
app.command("doctor")(doctor_command)
app.command("drives")(drives_command)
app.command("agent")(agent_command)
app.add_typer(cluster, name="cluster")
app.add_typer(place, name="place")
app.add_typer(tier, name="tier")

STUDIES = Path("pgflash-studies")
errors = Console(stderr=True, highlight=False)

T = TypeVar("T")

# What typer raises for wrong arguments: it has the class under another name in each of its versions.
UsageError: Any = typer.BadParameter.__base__

EnduranceOption = Annotated[
    str | None,
    typer.Option(help=f"What the flash drive may be written in its life, by its data sheet: {ENDURANCE_FORMS}. For the report's years."),
]
PriceOption = Annotated[
    str | None,
    typer.Option(help=f"What the disk's operations cost: {PRICE_FORMS}. For what the report says flash saves of them."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgflash {__version__}")
        raise typer.Exit


@app.callback()
def _top(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False) -> None:
    """The command line tool of pg_flashcache."""


@pilot.command("run")
def run_command(
    scenario: Annotated[list[str], typer.Argument(help="Files NAME.toml, or names of shipped scenarios (pgflash pilot list).")],
    study: Annotated[Path | None, typer.Option(help="Folder of the results; an interrupted study there goes on.")] = None,
    dir: Annotated[
        Path | None, typer.Option(help="Folder for clusters and modelled disks, on a disk. Default: TMPDIR, or /var/tmp.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check scenarios and machine.")] = False,
    report: Annotated[bool, typer.Option(help="Write the report at the end.")] = True,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=100, help="Instead of the scenario's; with more of them a study that is there goes on.")
    ] = None,
    warm_up: Annotated[int | None, typer.Option(min=1, max=86400, help="Seconds, instead of the scenario's warmup.max_s.")] = None,
    endurance: EnduranceOption = None,
    operation_price: PriceOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave clusters and disks behind, for looking at them.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    json_: JsonOption = False,
) -> None:
    """Runs a study, or what is missing of it. Own clusters on modelled storage need root."""
    from pgflash.pilot.runner import Runner

    chosen = load_all(scenario, repetitions, warm_up)
    drive, price = _endurance(endurance), _price(operation_price)
    if report:
        _load_writer()
    folder = study or STUDIES / "+".join(Path(name).stem for name in scenario)
    base = (dir or default_base()).resolve()
    reporter: Reporter = JsonReporter() if json_ else TerminalReporter(quiet)
    runner = Runner(chosen, folder, base, reporter, keep)
    if check:
        runner.check()
        _out(json_, {"scenarios": [scenarios.as_json(item) for item in chosen]}, "scenarios and machine are fine")
        return
    try:
        outcome = runner.run()
    except KeyboardInterrupt as error:
        hint = "what was measured is kept; the same command goes on from there"
        if _measured(folder):
            hint += f", and pgflash pilot report {folder} makes a report of what is there"
        raise Interrupted("interrupted", hint) from error
    written = _write_report([folder], folder, drive, price) if report and open_study(folder).runs else {}
    _out(
        json_,
        {"event": "end", "study": str(folder), "done": outcome.done, "there_already": outcome.skipped, "failed": outcome.failed, **written},
        f"{folder}: {counted(outcome.done, 'run')} done, {outcome.skipped} there already"
        + "".join(f"\n{name}: {path}" for name, path in written.items()),
    )
    if outcome.failed:
        for line in outcome.failed:
            errors.print(f"failed: {visible(line)}", markup=False, style="red")
        raise typer.Exit(EXIT_BROKE_OFF)


@pilot.command("list")
def list_command(
    folder: Annotated[Path, typer.Argument(help="Where studies are.")] = STUDIES,
    json_: JsonOption = False,
) -> None:
    """The scenarios that come with pgflash, and the studies in a folder."""
    shipped = [scenarios.as_json(scenarios.load_scenario(name)) for name in scenarios.shipped()]
    studies = [_study_row(path.parent) for path in sorted(folder.glob(f"*/{RUNS}"))] if folder.is_dir() else []
    if json_:
        print(json_text({"scenarios": shipped, "studies": studies}, indent=2))
        return
    table = Table("scenario", "what it asks", "load", "runs of", "root", title="Shipped scenarios", title_justify="left")
    for item in shipped:
        runs = f"{len(item['variants'])} x {len(item['clients'])} x {item['repetitions']} x {item['duration_s']} s"
        table.add_row(cell(item["name"]), cell(item["title"]), item["load"], runs, "yes" if item["needs_root"] else "no")
    out = console()
    out.print(table)
    out.print(f"complete: {', '.join(scenarios.COMPLETE)}, in one study", markup=False, soft_wrap=True)
    if not studies:
        out.print(f"no studies in {folder}", markup=False)
        return
    table = Table("study", "scenarios", "runs", "failed", "last", title=f"Studies in {folder}", title_justify="left")
    for row in studies:
        table.add_row(
            cell(row["study"]),
            cell(", ".join(row.get("scenarios", []))),
            row.get("state", ""),
            str(row.get("failed", "")),
            row.get("last", ""),
        )
    out.print(table)


def _study_row(folder: Path) -> dict[str, Any]:
    try:
        study = open_study(folder)
    except StudyError as error:
        return {"study": str(folder), "state": "cannot be read", "error": error.message}
    wanted = sum(len(item.variants) * len(item.load.clients) * item.repetitions for item in study.scenarios.values())
    last = study.lines[-1]["at"] if study.lines else ""
    return {
        "study": str(folder), "scenarios": list(study.scenarios), "runs": len(study.runs), "runs_wanted": wanted,
        "state": f"{len(study.runs)} of {wanted}", "failed": len(study.of("failed")), "last": last, "report": (folder / "report.html").exists(),
    }  # fmt: skip


@pilot.command("report")
def report_command(
    study: Annotated[list[Path], typer.Argument(help="One or more folders of studies.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the report. Default: that of the first study.")] = None,
    endurance: EnduranceOption = None,
    operation_price: PriceOption = None,
    json_: JsonOption = False,
) -> None:
    """Writes report.html and report.md from what studies have measured so far."""
    written = _write_report(study, out or study[0], _endurance(endurance), _price(operation_price))
    _out(json_, written, "\n".join(f"{name}: {path}" for name, path in written.items()))


@pilot.command("restore")
def restore_command(
    study: Annotated[Path, typer.Argument(help="Folder of a study on an existing server that was cut short.")],
    json_: JsonOption = False,
) -> None:
    """Puts an existing server back as it was before a run that was killed. The next run of the study does so, too."""
    from pgflash.pilot.existing import restore

    writer = Writer(study)
    open_study(study)  # says so if it is none
    try:
        done = restore(writer.open([]))
    finally:
        writer.close()
    _out(json_, {"restored": done}, "\n".join(done) or "nothing to put back")


def _load_writer() -> Callable[[list[Study], Path, Endurance | None, OperationPrice | None], dict[str, Path]]:
    """Before a study begins: what is missing for its report must not turn up after hours."""
    try:
        from pgflash.pilot.report.write import write
    except ImportError as error:
        raise MachineError(
            f"the report cannot be written: {error}",
            "install pgflash with pip, which brings its libraries along, or measure without a report: --no-report",
        ) from error
    return write


def _endurance(text: str | None) -> Endurance | None:
    return _read(text, parse_endurance, ENDURANCE_FORMS, "--endurance")


def _price(text: str | None) -> OperationPrice | None:
    return _read(text, parse_operation_price, PRICE_FORMS, "--operation-price")


def _read(text: str | None, parse: Callable[[str], T | None], forms: str, option: str) -> T | None:
    if text is None:
        return None
    found = parse(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} will not do; allowed: {forms}", param_hint=option)
    return found


def _measured(folder: Path) -> bool:
    try:
        return bool(open_study(folder).runs)
    except StudyError:
        return False


def _write_report(folders: list[Path], out: Path, drive: Endurance | None, price: OperationPrice | None) -> dict[str, str]:
    write = _load_writer()
    studies = [open_study(folder) for folder in folders]
    if not any(study.runs for study in studies):
        raise StudyError("nothing has been measured yet: " + ", ".join(map(str, folders)))
    return {name: str(path) for name, path in write(studies, out, drive, price).items()}


@pilot.command("compare")
def compare_command(
    a: Annotated[Path, typer.Argument(help="Folder of a study.")],
    b: Annotated[Path, typer.Argument(help="Folder of another, or of the same.")],
    fail_if_slower: Annotated[
        float | None,
        typer.Option(min=0, help="Exit status 6 if B is slower by more than this many percent, beyond what repetitions scatter."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """B against A: every variant that both have measured, medians over the repetitions and how sure the difference is."""
    from pgflash.pilot.compare import compare, show

    result = compare(open_study(a), open_study(b))
    if not result.rows:
        raise StudyError(f"{a} and {b} have no variant in common")
    if json_:
        print(json_text(result.as_json(), indent=2))
    else:
        show(result)
    slower = result.slower_than(fail_if_slower) if fail_if_slower is not None else []
    if slower:
        for row in slower:
            errors.print(
                f"slower: {row.scenario}, {row.variant}, {counted(row.clients, 'client')}: {row.ratio:.3g} of A's latency",
                markup=False,
                style="red",
            )
        raise typer.Exit(EXIT_SLOWER)


# --- helpers ------------------------------------------------------------------------------------------------


def load_all(names: list[str], repetitions: int | None = None, warm_up_s: int | None = None) -> list[scenarios.Scenario]:
    """All of them, or one error with the faults of all."""
    loaded: list[scenarios.Scenario] = []
    faults: list[str] = []
    for name in scenarios.expanded(names):
        try:
            loaded.append(scenarios.load_scenario(name, repetitions, warm_up_s))
        except ScenarioError as error:
            if len(names) == 1 and names[0] != "complete":
                raise
            faults += [f"{error.where}: {fault}" for fault in error.faults]
    twice = sorted({item.name for item in loaded if sum(other.name == item.name for other in loaded) > 1})
    faults += [f"{name}: is given twice; allowed: scenarios with names of their own" for name in twice]
    if faults:
        raise ScenarioError("scenario" if len(names) == 1 else "scenarios", faults)
    return loaded


def _out(as_json: bool, values: dict[str, Any], text: str) -> None:
    if as_json:
        print(json_text(values))
    elif text:
        print(visible(text, lines=True))


def main() -> NoReturn:
    """Runs the command; errors of ours become a message and their exit status."""
    raise_on_signals()
    as_json = "--json" in sys.argv[1:]
    try:
        status = _run(as_json)
    except PgflashError as error:
        status = _tell(error, as_json)
    except psycopg.Error as error:
        hint = "what was changed before is not put back: the command's status, or the same command again, shows it"
        status = _tell(BrokeOff(f"the connection to the server: {reason(error)}", hint), as_json)
    sys.exit(status)


def _run(as_json: bool) -> int:
    """The exit status. What is wrong with the arguments typer tells a person by itself; for a program it is an error as any other."""
    if not as_json:
        app(prog_name="pgflash", standalone_mode=True)
        return EXIT_OK
    try:
        status = app(prog_name="pgflash", standalone_mode=False) or EXIT_OK
    except typer.Abort as error:
        raise Interrupted("interrupted") from error
    except UsageError as error:
        at = error.ctx.command_path if error.ctx else "pgflash"
        raise ArgumentError(error.format_message(), f"{at} --help has the arguments") from error
    if status == EXIT_INTERRUPTED:  # typer's way to say so, depending on its version
        raise Interrupted("interrupted")
    return int(status)


def _tell(error: PgflashError, as_json: bool) -> int:
    if as_json:
        values: dict[str, Any] = {
            "event": "error",
            "kind": error.kind,
            "message": error.message,
            "hint": error.hint,
            "exit": error.exit_code,
        }
        if isinstance(error, ScenarioError):
            values["faults"] = error.faults
        print(json_text(values))
        return error.exit_code
    errors.print(f"error: {visible(error.message, lines=True)}", markup=False, style="red", soft_wrap=True)
    if error.hint:
        errors.print(f"hint: {visible(error.hint, lines=True)}", markup=False, soft_wrap=True)
    return error.exit_code

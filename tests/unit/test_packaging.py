"""What is shipped: wheel and sdist hold every file of the four folders, an editable install sees new ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tui", "engine", "kernels", "profiles")

pytestmark = pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="git says what should be shipped"
)


def _tracked(*folders: str) -> set[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git tracks, as a fresh clone would hold them, links included."""
    folder = tmp_path_factory.mktemp("tree") / "kernel-lab"
    for name in _tracked("."):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return folder


def _build(tree: Path, out: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *options, str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl" if "--sdist" not in options else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tree, tmp_path_factory.mktemp("wheel"), "--wheel")


def _modules(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name.removeprefix("kernel_lab/") for name in archive.namelist() if "dist-info" not in name}


def test_the_wheel_holds_every_tracked_file_and_nothing_else(wheel: Path) -> None:
    shipped, wanted = _modules(wheel), _tracked(*FOLDERS)
    assert wanted - shipped == set(), "missing from the wheel"
    assert shipped - wanted == set(), "in the wheel but not in git"
    assert {"tui/cli.py", "tui/py.typed", "engine/py.typed", "profiles/gpus/rtx3060.toml"} <= shipped
    assert "kernels/gqa_decode/task.toml" in shipped


def test_the_sdist_makes_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = _build(tree, tmp_path / "sdist", "--sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert (source / "README.md").is_file() and (source / "tests").is_dir()
    again = _build(source, tmp_path / "wheel", "--wheel")
    assert _modules(again) == _modules(wheel)


def test_the_metadata_asks_for_light_things_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
        entry = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    core = [line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert not [line for line in core if any(heavy in line for heavy in ("torch", "triton", "numpy"))]
    gpu = [line for line in lines if "extra == 'gpu'" in line]
    assert any("torch>=2.11" in line for line in gpu) and any("triton>=3.6" in line for line in gpu)
    assert "kernel-lab = kernel_lab.tui.cli:main" in entry
    assert "Requires-Python: >=3.11" in lines


def test_an_installed_wheel_runs_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--target", str(target), str(wheel)], check=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    script = target / "bin" / "kernel-lab"
    done = subprocess.run(
        [str(script), "profiles"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rtx3060" in done.stdout
    code = (
        "import kernel_lab.tui.cli as cli\nfrom kernel_lab.engine.tasks import load_task\n"
        "print(cli.__file__, load_task('gqa_decode').folder)"
    )
    where = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(Path(path).is_relative_to(target) for path in where.stdout.split())


def test_an_editable_install_sees_new_files(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, symlinks=True)
    code = "import sys; from hatchling.build import build_editable; print(build_editable(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=copy, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)  # noqa: S202  built a moment ago, here
    assert not (site / "kernel_lab").exists(), "a link, not a copy"
    (copy / "engine" / "brand_new.py").write_text("ANSWER = 42\n")
    (copy / "engine" / "newer").mkdir()
    (copy / "engine" / "newer" / "__init__.py").write_text("ANSWER = 43\n")
    look = (
        f"import site, sys; site.addsitedir({str(site)!r})\n"
        "import kernel_lab.engine.brand_new as a, kernel_lab.engine.newer as b, kernel_lab.tui.cli as c\n"
        "print(a.ANSWER, b.ANSWER, a.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", look], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, file = done.stdout.split()
    assert (first, second) == ("42", "43")
    assert Path(file).resolve() == (copy / "engine" / "brand_new.py").resolve()


def test_the_data_folders_are_no_packages() -> None:
    """`import kernels` at the root of the repository must not shadow the well-known package of that name."""
    names = _tracked("kernels", "profiles")
    assert not [name for name in names if name in ("kernels/__init__.py", "profiles/__init__.py")]


def test_the_links_for_editable_installs_point_at_the_folders() -> None:
    for folder in FOLDERS:
        link = ROOT / ".pkg" / "kernel_lab" / folder
        assert link.is_symlink() and link.resolve() == ROOT / folder

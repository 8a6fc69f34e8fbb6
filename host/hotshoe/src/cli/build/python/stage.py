"""Copies the sources of a component into a folder: the plugin's modules and those of its local dependencies.

Run as `python -c … FOLDER STAGE`, where FOLDER has the plugin's pyproject.toml. Prints, as JSON, the module of the
plugin, what pip still has to install, and a digest of the copied files.
"""

import hashlib
import json
import pathlib
import re
import shutil
import sys

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

SDK = "hotshoe-sdk"
# Modules and folders of a project that are not part of the plugin.
NOT_PACKAGED = {"conftest.py", "noxfile.py", "setup.py", "tests", "test", "docs", "target", "build", "dist", "cases"}


def main(folder, stage):
    project = read(folder)
    name = project.get("project", {}).get("name") or stop("has no [project] name", folder)
    module = project.get("tool", {}).get("hotshoe", {}).get("module") or name.replace("-", "_")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    copy_modules(folder, stage)
    if not is_module(stage, module):
        stop(
            f"names the module {module}, and neither {module}.py nor {module}/__init__.py is in {sources(folder)}: name it "
            f'after the project, or say `module = "NAME"` under [tool.hotshoe]',
            folder,
        )
    requires = require(folder, project, stage, set())
    if not is_module(stage, "hotshoe") and SDK not in map(normal, requires):
        stop(f'depends on no {SDK}: add it, as in dependencies = ["{SDK}==0.1.*"]', folder)
    print(json.dumps({"module": module, "requires": sorted(requires), "digest": digest(stage)}))


def read(folder):
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{file} cannot be read: {error}")


def require(folder, project, stage, seen):
    """Copy the dependencies to which [tool.uv.sources] gives a path, and return the others."""
    local = {normal(name): source for name, source in project.get("tool", {}).get("uv", {}).get("sources", {}).items()}
    others = set()
    for requirement in project.get("project", {}).get("dependencies", []):
        path = local.get(normal(requirement), {}).get("path")
        if path is None:
            others.add(requirement)
            continue
        at = (folder / path).resolve()
        if at not in seen:
            seen.add(at)
            copy_modules(at, stage)
            others |= require(at, read(at), stage, seen)
    return others


def copy_modules(folder, stage):
    for item in sorted(sources(folder).iterdir()):
        if item.name in NOT_PACKAGED or item.name.startswith((".", "_")):
            continue
        if item.suffix == ".py":
            shutil.copyfile(item, stage / item.name)
        elif (item / "__init__.py").is_file():
            shutil.copytree(item, stage / item.name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


def sources(folder):
    return folder / "src" if (folder / "src").is_dir() else folder


def is_module(stage, module):
    path = stage.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def normal(requirement):
    """Return the name of a requirement in the normal form by which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]*", requirement.strip()).group()).lower()


def digest(stage):
    hasher = hashlib.sha256()
    for file in sorted(path for path in stage.rglob("*") if path.is_file()):
        content = file.read_bytes()
        hasher.update(f"{file.relative_to(stage)} {len(content)}\n".encode() + content)
    return hasher.hexdigest()


def stop(what, folder):
    sys.exit(f"{folder / 'pyproject.toml'} {what}")


main(*map(pathlib.Path, sys.argv[1:]))

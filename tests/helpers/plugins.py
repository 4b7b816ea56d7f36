"""Plugins as packages install them: metadata with an entry point, in a folder for the module path."""

from pathlib import Path

LINE_PLUGIN = "tests.helpers.line_protocol:LINE"


def install_protocol(folder: Path, scheme: str, value: str) -> None:
    """Make *folder* look like one into which pip has installed a protocol plugin."""
    metadata = folder / f"{scheme}_plugin-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {scheme}-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[ackwire.protocols]\n{scheme} = {value}\n")

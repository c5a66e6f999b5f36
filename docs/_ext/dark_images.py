"""An image that has a dark twin beside it (`x.svg` and `x-dark.svg`, or png) is shown in the colours of the page."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class AddDarkTwins(SphinxTransform):
    """Put the dark image behind the light one; the theme shows one of them."""

    default_priority = 400  # before the images are collected

    def apply(self, **_options: Any) -> None:
        """Look at every image of the page."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            path = Path(image["uri"])
            dark = path.with_name(f"{path.stem}-dark{path.suffix}")
            if "://" in image["uri"] or not (folder / dark).exists():
                continue
            twin = image.deepcopy()
            twin["uri"] = dark.as_posix()
            twin["classes"] = [*image["classes"], "only-dark"]
            image["classes"] = [*image["classes"], "only-light"]
            image.parent.insert(image.parent.index(image) + 1, twin)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the transformation."""
    app.add_transform(AddDarkTwins)
    return {"parallel_read_safe": True}

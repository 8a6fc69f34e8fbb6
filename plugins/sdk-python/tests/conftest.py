"""The tests know the package that lies beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

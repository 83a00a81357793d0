"""python -m perseid"""

from perseid.cli import main

main()

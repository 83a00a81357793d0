"""`python -m perseid.workers`: a worker process, which only a server can start."""

from perseid.workers.host import main

main()

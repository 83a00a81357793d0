"""Entry point of `python -m perseid` and of the command `perseid`."""


def main() -> None:
    try:
        from perseid.commands.cli import main as run
    except KeyboardInterrupt:  # before the handler of the commands is loaded
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()

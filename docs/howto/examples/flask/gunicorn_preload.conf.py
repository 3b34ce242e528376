"""The same with --preload: the app is made before the fork, and threads do not survive a fork."""

workers = 4
preload_app = True
wsgi_app = "app:create_app(start=False)"


def post_worker_init(worker: object) -> None:
    """After the fork, in each worker."""
    worker.wsgi.extensions["scheduler"].start()  # type: ignore[attr-defined]

"""The smallest settings that run; yours have more."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", BASE_DIR / "db.sqlite3")},
}

# The schedules have a file of their own; on PostgreSQL they may share Django's database (their tables: calsched_…).
CALSCHED_STORE = os.environ.get("SHOP_STORE", f"sqlite:///{BASE_DIR / 'schedules.db'}")

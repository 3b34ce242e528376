"""Moving over: schedules of an existing APScheduler job store or crontab, as declarations of ours."""

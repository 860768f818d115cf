-- What is over, oldest first: tidying looks at a few of them at a time and never at all of them.
CREATE INDEX progress_over ON progress (schedule) WHERE state IN ('deleted', 'ended', 'cancelled');

